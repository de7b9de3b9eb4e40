package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Target is a daemon to be measured and one of its queues.
type Target struct {
	network, address string
	host             string // for the Host field
	base             string // path below which the protocol is served, no / at its end
	queue            string // escaped
	authorize        string // the field that says who asks, with its CR LF, or empty
}

// WithToken returns the target for one who has a bearer token (RFC 6750, 2.1);
// what is no token is refused.
func (t Target) WithToken(token string) (Target, error) {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return Target{}, errors.New("token has characters that no token has")
		}
	}
	t.authorize = "Authorization: Bearer " + token + "\r\n"
	return t, nil
}

// ParseTarget reads the URL of a daemon, http://HOST[:PORT][/PATH] or
// unix:PATH for the socket in its home, and takes any queue name.
func ParseTarget(rawURL, queue string) (Target, error) {
	if queue == "" {
		return Target{}, fmt.Errorf("queue name is empty")
	}
	t := Target{queue: url.PathEscape(queue)}
	if path, ok := strings.CutPrefix(rawURL, "unix:"); ok {
		if path == "" {
			return Target{}, fmt.Errorf("url %q: names no socket", rawURL)
		}
		t.network, t.address, t.host = "unix", path, "localhost"
		return t, nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return Target{}, err
	}
	if u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("url %q: not http://HOST[:PORT][/PATH] or unix:PATH", rawURL)
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	t.network, t.address, t.host = "tcp", net.JoinHostPort(u.Hostname(), port), u.Host
	t.base = strings.TrimRight(u.EscapedPath(), "/")
	return t, nil
}

// StatusError is an answer with a status that the operation does not expect.
type StatusError struct {
	Request string // method and path
	Status  int
	Detail  string // what the answer's body says
	After   time.Duration
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Request, e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// RetryAfter returns how long the server asks to wait; zero if it does not.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// Permanent says that no repetition will help: the request itself is refused.
func (e *StatusError) Permanent() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// exchanger sends requests on one connection and reads the heads of the answers.
type exchanger struct {
	conn *Conn
	head Head
	body Body
}

// exchange sends one request and reads the head of its answer, whose body then
// stands in e.body. An answer with a status other than want is a
// [*StatusError]. The name is for errors.
func (e *exchanger) exchange(ctx context.Context, name string, m *Message, want ...int) error {
	sent := e.conn.Send(ctx, m)
	if e.conn.nc == nil {
		return sent
	}
	if sent != nil {
		// A server that refuses a large body answers and closes while it is
		// still being written: its answer says more than the broken pipe.
		e.conn.nc.SetReadDeadline(time.Now().Add(time.Second))
	}
	err := e.head.Read(e.conn.r)
	for n := 0; err == nil && e.head.Status < 200; n++ {
		if n == 5 || e.head.Status == http.StatusSwitchingProtocols {
			err = fmt.Errorf("%w: status %d", ErrMalformed, e.head.Status)
			break
		}
		err = e.head.Read(e.conn.r)
	}
	if err != nil {
		e.conn.Close()
		if sent != nil {
			err = sent
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	e.body.Reset(e.conn.r, &e.head)
	if slices.Contains(want, e.head.Status) {
		if sent != nil {
			e.conn.Close()
			return fmt.Errorf("%s: %w", name, sent)
		}
		return nil
	}
	detail, _ := io.ReadAll(io.LimitReader(&e.body, 4<<10))
	status := &StatusError{
		Request: name,
		Status:  e.head.Status,
		Detail:  reason(detail),
		After:   time.Duration(e.head.RetryAfter) * time.Second,
	}
	if sent != nil {
		e.conn.Close()
	} else if err := e.finish(name); err != nil {
		return err
	}
	return status
}

// finish reads the rest of the body and keeps the connection, if the server does.
func (e *exchanger) finish(name string) error {
	if err := e.body.Drain(); err != nil {
		e.conn.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	if e.head.Close {
		return e.conn.Close()
	}
	return nil
}

// reason finds in the body of an error what a person wants to read: the detail
// or else the description of an exception state, in ANVL or JSON, or else the
// first line.
func reason(body []byte) string {
	found := make(map[string]string)
	var state map[string]map[string]any
	if json.Unmarshal(body, &state) == nil {
		for _, properties := range state {
			for name, value := range properties {
				found[strings.TrimPrefix(name, "exc:")] = fmt.Sprint(value)
			}
		}
	} else {
		for line := range strings.Lines(string(body)) {
			name, value, _ := strings.Cut(line, ":")
			found[name] = strings.TrimSpace(value)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	text := cmp.Or(found["detail"], found["description"], strings.TrimSpace(first))
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}
