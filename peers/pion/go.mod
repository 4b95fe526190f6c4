module antedate.example/peers/pion

go 1.19

require github.com/pion/dtls/v3 v3.0.2

require (
	github.com/pion/logging v0.2.2 // indirect
	github.com/pion/transport/v3 v3.0.7 // indirect
	golang.org/x/crypto v0.25.0 // indirect
)
