// HiveMQ's community edition on a port of loopback, until it is killed. Arguments: port, empty directory.

import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Files;
import java.nio.file.Path;

public class Broker {
    public static void main(final String[] words) throws Exception {
        final Path home = Path.of(words[1]);
        for (final String folder : new String[] {"conf", "data", "extensions"}) {
            Files.createDirectories(home.resolve(folder));
        }
        Files.writeString(home.resolve("conf/config.xml"), """
            <?xml version="1.0" encoding="UTF-8" ?>
            <hivemq>
              <listeners>
                <tcp-listener><port>%s</port><bind-address>127.0.0.1</bind-address></tcp-listener>
              </listeners>
              <mqtt>
                <queued-messages><max-queue-size>200000</max-queue-size></queued-messages>
              </mqtt>
              <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
            </hivemq>
            """.formatted(words[0]));
        final EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
            .withConfigurationFolder(home.resolve("conf"))
            .withDataFolder(home.resolve("data"))
            .withExtensionsFolder(home.resolve("extensions"))
            .build();
        broker.start().join();
        Thread.currentThread().join();
    }
}
