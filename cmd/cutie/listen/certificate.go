package listen

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"cutie/cmd/cutie/access"
)

// A Certificate is a pair of files in PEM, read again when they change.
type Certificate struct {
	cert, key string
	stamps    [2]access.Stamp
	current   atomic.Pointer[tls.Certificate]
}

// maxPEM is the size of a file of certificates or of a key, in octets.
const maxPEM = 1 << 20

// LoadCertificate reads the files for the first time.
func LoadCertificate(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	return c, c.Reload()
}

// Reload reads the files if one of them has changed. A pair that does not fit
// leaves the last one in use. It is for one goroutine.
func (c *Certificate) Reload() error {
	var stamps [2]access.Stamp
	for i, name := range []string{c.cert, c.key} {
		var err error
		if stamps[i], err = access.StampOf(name); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	if stamps == c.stamps {
		return nil
	}
	var text [2][]byte
	for i, name := range []string{c.cert, c.key} {
		var err error
		if text[i], err = access.ReadFile(name, maxPEM); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	c.stamps = stamps
	return nil
}

// Config is for TLS 1.2 and up, with HTTP/2.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
