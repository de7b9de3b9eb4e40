package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"cutie/cmd/cutie/mirror"
)

const (
	soon      = 30 * 24 * time.Hour // before a certificate ends
	patience  = 5 * time.Second     // for an answer
	maxAnswer = 16 << 20            // octets of one
)

// sources asks the originals of mirrors for an answer: one never reached has no queue here
// that would tell.
func (e *examination) sources(ctx context.Context) {
	for _, uri := range e.Mirrors {
		if mirror.Answers(ctx, strings.TrimSuffix(uri, "/")) {
			continue
		}
		e.fault("mirrors", "start it, or look at the network and at --mirror; if it is lost: cutie failover mirror QUEUE, and take it out of --mirror", "the original %s does not answer", uri)
	}
}

// certificate looks at the certificate of the daemon.
func (e *examination) certificate() {
	if e.Certificate == "" {
		return
	}
	const renew = "renew it; a running daemon reads the files again by itself"
	pair, err := tls.LoadX509KeyPair(e.Certificate, e.Key)
	if err != nil {
		e.fault("certificate", "--tls-cert names the chain in PEM, --tls-key its key", "%v", err)
		return
	}
	leaf := pair.Leaf
	switch left := leaf.NotAfter.Sub(e.Now); {
	case left < 0:
		e.fault("certificate", renew, "%s ended on %s", e.Certificate, leaf.NotAfter.Format(time.DateOnly))
	case e.Now.Before(leaf.NotBefore):
		e.fault("certificate", "look at the clock of this machine", "%s begins on %s", e.Certificate, leaf.NotBefore.Format(time.DateOnly))
	case left < soon:
		e.warn("certificate", renew, "%s ends on %s", e.Certificate, leaf.NotAfter.Format(time.DateOnly))
	default:
		e.ok("certificate", "%s is good until %s", e.Certificate, leaf.NotAfter.Format(time.DateOnly))
	}
	if u, err := url.Parse(e.BaseURI); err == nil && u.Host != "" {
		if err := leaf.VerifyHostname(u.Hostname()); err != nil {
			e.fault("certificate", "get one for this name, or put the right one in --base-uri", "%v", err)
		}
	}
	if info, err := os.Stat(e.Key); err == nil && info.Mode().Perm()&0o077 != 0 {
		e.warn("certificate", "chmod 600 "+e.Key, "others can read the key")
	}
}

// identity is as much of the state of a service as tells one from another.
type identity struct {
	Identifier string `json:"identifier"`
	BaseURI    string `json:"baseURI"`
}

// references looks where the references in documents lead: to this daemon, if it runs.
func (e *examination) references(ctx context.Context) {
	if e.daemon == nil {
		return
	}
	var own, there identity
	if _, err := get(ctx, e.daemon.HTTP, e.daemon.Base+"state?t=json", &own); err != nil {
		e.fault("daemon", "see its log", "it does not tell its state: %v", err)
		return
	}
	base := own.BaseURI
	e.BaseURI = base
	const cure = "--base-uri is the address clients use; look at the proxy, the firewall and the names before it"
	status, err := get(ctx, http.DefaultClient, base+"state?t=json", &there)
	var unknown x509.UnknownAuthorityError
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.ok("references", "they lead to %s, which wants to know who asks", base)
	case errors.As(err, &unknown):
		e.warn("references", "clients need the certificate of its authority", "they lead to %s: %v", base, err)
	case err != nil:
		e.fault("references", cure, "they lead to %s: %v", base, err)
	case there.Identifier != own.Identifier:
		e.fault("references", cure, "they lead to %s, which is another service, %q", base, there.Identifier)
	case loopback(base):
		e.ok("references", "they lead to %s, for clients on this machine alone", base)
	default:
		e.ok("references", "they lead to %s, which is this daemon", base)
	}
}

func loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// get reads an answer in JSON, or as text.
func get(ctx context.Context, c *http.Client, uri string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", uri, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("no answer within %v", patience)
		}
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return resp.StatusCode, err
	}
	if text, ok := into.(*string); ok {
		*text = string(body)
		return resp.StatusCode, nil
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("%s", strings.ToLower(resp.Status))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return resp.StatusCode, fmt.Errorf("the answer is not a state of cutie: %w", err)
	}
	return resp.StatusCode, nil
}
