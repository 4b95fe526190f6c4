// DTLS 1.2 client and server with connection IDs (RFC 9146), by pion/dtls.
//
//	pion client ADDRESS IDENTITY HEXKEY COUNT   sends COUNT lines, moves after half, counts the answers
//	pion server ADDRESS IDENTITY HEXKEY         echoes datagrams from any address
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err)
		os.Exit(1)
	}
}

// A socket that can move to another port.
type moving struct {
	net.PacketConn
	lock sync.Mutex
}

func socket() net.PacketConn {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	check(err)
	return socket
}

func (m *moving) now() net.PacketConn {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.PacketConn
}

func (m *moving) move() {
	m.lock.Lock()
	defer m.lock.Unlock()
	old := m.PacketConn
	m.PacketConn = socket()
	old.Close()
}

func (m *moving) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		socket := m.now()
		n, from, err := socket.ReadFrom(b)
		// The socket moved during the read.
		if errors.Is(err, net.ErrClosed) && socket != m.now() {
			continue
		}
		return n, from, err
	}
}

func (m *moving) WriteTo(b []byte, to net.Addr) (int, error) { return m.now().WriteTo(b, to) }
func (m *moving) LocalAddr() net.Addr                        { return m.now().LocalAddr() }
func (m *moving) SetDeadline(t time.Time) error              { return m.now().SetDeadline(t) }
func (m *moving) SetReadDeadline(t time.Time) error          { return m.now().SetReadDeadline(t) }

func config(identity, key string) *dtls.Config {
	octets, err := hex.DecodeString(key)
	check(err)
	return &dtls.Config{
		PSK:             func([]byte) ([]byte, error) { return octets, nil },
		PSKIdentityHint: []byte(identity),
		CipherSuites:    []dtls.CipherSuiteID{dtls.TLS_PSK_WITH_AES_128_CCM_8},
		// Without it pion would not send the extension.
		ExtendedMasterSecret: dtls.RequireExtendedMasterSecret,
	}
}

func client(address, identity, key string, count int) {
	to, err := net.ResolveUDPAddr("udp", address)
	check(err)
	wire := &moving{PacketConn: socket()}
	settings := config(identity, key)
	// Requests no connection ID and uses the server's.
	settings.ConnectionIDGenerator = dtls.OnlySendCIDGenerator()
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := dtls.Client(wire, to, settings)
	check(err)
	check(conn.HandshakeContext(within))
	buffer := make([]byte, 2000)
	answers := 0
	for i := 0; i < count; i++ {
		if i == count/2 {
			wire.move()
		}
		line := fmt.Sprintf("line %d", i)
		_, err := conn.Write([]byte(line))
		check(err)
		check(conn.SetReadDeadline(time.Now().Add(5 * time.Second)))
		n, err := conn.Read(buffer)
		check(err)
		if string(buffer[:n]) == "echo "+line {
			answers++
		}
	}
	fmt.Println("answers", answers)
	check(conn.Close())
}

func server(address, identity, key string) {
	at, err := net.ResolveUDPAddr("udp", address)
	check(err)
	settings := config(identity, key)
	settings.ConnectionIDGenerator = dtls.RandomCIDGenerator(8)
	listener, err := dtls.Listen("udp", at, settings)
	check(err)
	fmt.Println("listening")
	for {
		conn, err := listener.Accept()
		if err != nil {
			fmt.Println("refused", err)
			continue
		}
		fmt.Println("accepted")
		go func() {
			buffer := make([]byte, 2000)
			for {
				n, err := conn.Read(buffer)
				if err != nil {
					return
				}
				_, _ = conn.Write(append([]byte("echo "), buffer[:n]...))
			}
		}()
	}
}

func main() {
	switch {
	case len(os.Args) == 6 && os.Args[1] == "client":
		count, err := strconv.Atoi(os.Args[5])
		check(err)
		client(os.Args[2], os.Args[3], os.Args[4], count)
	case len(os.Args) == 5 && os.Args[1] == "server":
		server(os.Args[2], os.Args[3], os.Args[4])
	default:
		check(errors.New("client ADDRESS IDENTITY HEXKEY COUNT, or server ADDRESS IDENTITY HEXKEY"))
	}
}
