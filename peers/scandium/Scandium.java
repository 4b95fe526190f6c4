// Scandium, the DTLS library of Eclipse Californium, as DTLS 1.2 server and client with a
// pre-shared key.
//
//   java Scandium server PORT IDENTITY HEXKEY SUITE CID        returns each datagram behind "echo "
//   java Scandium client PORT IDENTITY HEXKEY SUITE CID COUNT  sends messages, and counts the answers
//
// SUITE is the registry's name of a cipher suite. CID is the length of the own connection ID (RFC
// 9146) in octets; with -1 the extension is not used.

import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.eclipse.californium.elements.AddressEndpointContext;
import org.eclipse.californium.elements.RawData;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConfig.DtlsRole;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.cipher.CipherSuite;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;

public class Scandium {
    private static final String HOST = "127.0.0.1";

    private static DTLSConnector connector(DtlsRole role, int port, String[] words) {
        DtlsConfig.register();
        Configuration configuration = new Configuration();
        configuration.set(DtlsConfig.DTLS_ROLE, role);
        CipherSuite suite = CipherSuite.getTypeByName(words[4]);
        if (suite == null || !suite.isSupported()) {
            throw new IllegalArgumentException("no suite " + words[4]);
        }
        configuration.set(DtlsConfig.DTLS_RECOMMENDED_CIPHER_SUITES_ONLY, false);
        configuration.setAsList(DtlsConfig.DTLS_CIPHER_SUITES, suite);
        configuration.set(DtlsConfig.DTLS_RECEIVER_THREAD_COUNT, 1);
        configuration.set(DtlsConfig.DTLS_CONNECTOR_THREAD_COUNT, 1);
        configuration.set(DtlsConfig.DTLS_RETRANSMISSION_TIMEOUT, 200, TimeUnit.MILLISECONDS);
        int length = Integer.parseInt(words[5]);
        if (length >= 0) {
            configuration.set(DtlsConfig.DTLS_CONNECTION_ID_LENGTH, length);
        }
        byte[] key = HexFormat.of().parseHex(words[3]);
        DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(configuration);
        builder.setAddress(new InetSocketAddress(HOST, port));
        builder.setAdvancedPskStore(new AdvancedSinglePskStore(words[2], key));
        return new DTLSConnector(builder.build());
    }

    private static void serve(String[] words) throws Exception {
        DTLSConnector server = connector(DtlsRole.SERVER_ONLY, Integer.parseInt(words[1]), words);
        server.setRawDataReceiver(came -> {
            byte[] echo = "echo ".getBytes(StandardCharsets.US_ASCII);
            byte[] answer = java.util.Arrays.copyOf(echo, echo.length + came.getSize());
            System.arraycopy(came.getBytes(), 0, answer, echo.length, came.getSize());
            server.send(RawData.outbound(answer, came.getEndpointContext(), null, false));
        });
        server.start();
        System.out.println("listening");
        Thread.currentThread().join();
    }

    private static void ask(String[] words) throws Exception {
        DTLSConnector client = connector(DtlsRole.CLIENT_ONLY, 0, words);
        LinkedBlockingQueue<String> answers = new LinkedBlockingQueue<>();
        client.setRawDataReceiver(
                came -> answers.add(new String(came.getBytes(), StandardCharsets.US_ASCII)));
        client.start();
        InetSocketAddress to = new InetSocketAddress(HOST, Integer.parseInt(words[1]));
        int count = Integer.parseInt(words[6]), right = 0;
        for (int i = 0; i < count; i++) {
            byte[] said = ("message " + i).getBytes(StandardCharsets.US_ASCII);
            client.send(RawData.outbound(said, new AddressEndpointContext(to), null, false));
            // The first message waits for the handshake.
            String answer = answers.poll(i == 0 ? 20_000 : 300, TimeUnit.MILLISECONDS);
            if (("echo message " + i).equals(answer)) {
                right++;
            }
        }
        System.out.println("answers " + right);
        client.destroy();
    }

    public static void main(String[] words) throws Exception {
        if (words.length == 6 && words[0].equals("server")) {
            serve(words);
        } else if (words.length == 7 && words[0].equals("client")) {
            ask(words);
        } else {
            System.err.println("Scandium server|client PORT IDENTITY HEXKEY SUITE CID [COUNT]");
            System.exit(2);
        }
        System.exit(0);
    }
}
