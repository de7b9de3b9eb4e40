package source

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/time/rate"

	"cutie/queuefs/outbound"
	"cutie/wellknown"
)

// Limits.
const (
	DefaultConnections = 8
	DefaultTries       = 5
	DefaultTimeout     = time.Minute
	DefaultPause       = 500 * time.Millisecond

	maxRedirects = 5
	maxWaits     = 32               // requests with Wait at a time, beside the others
	maxPause     = time.Minute      // between tries
	maxAfter     = 10 * time.Minute // in Retry-After
	leastOctets  = 1 << 10          // in a Timeout
)

// Errors of requests.
var (
	ErrSlow      = errors.New("the server sends nothing, or hardly anything")
	ErrRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
)

// Options are the settings of a [Client]. The zero Options are good.
type Options struct {
	Transport   http.RoundTripper   // nil: like [http.DefaultTransport], with proxies of the environment, for Origin and Addresses
	Addresses   *outbound.Addresses // of all hosts but that of Origin; nil: public ones
	UserAgent   string
	Header      http.Header   // credentials: sent to Origin only
	Origin      string        // scheme://host of the Source, as the operator named it
	Connections int           // in use at a time; 0: DefaultConnections
	Requests    float64       // a second; 0: no limit
	Octets      int64         // a second; 0: no limit
	Tries       int           // of a request; 0: DefaultTries
	Timeout     time.Duration // for the first octet, and for each KiB; 0: DefaultTimeout
	Pause       time.Duration // before the second try, twice as long before each other; 0: DefaultPause
}

// A Client makes requests. It is safe for concurrent use.
type Client struct {
	o        Options
	http     *http.Client
	requests *rate.Limiter // nil: no limit
	octets   *rate.Limiter
	slots    chan struct{}
	waits    chan struct{}
	made     atomic.Int64
	read     atomic.Int64
	sleep    func(ctx context.Context, d time.Duration) error
}

// NewClient returns a Client.
func NewClient(o Options) *Client {
	o.Connections = cmp.Or(o.Connections, DefaultConnections)
	o.Tries = cmp.Or(o.Tries, DefaultTries)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Pause = cmp.Or(o.Pause, DefaultPause)
	if o.Origin != "" {
		o.Origin = OriginOf(o.Origin)
	}
	if o.Transport == nil {
		o.Transport = newTransport(&o)
	}
	c := &Client{o: o, slots: make(chan struct{}, o.Connections), waits: make(chan struct{}, maxWaits), sleep: sleep}
	c.http = &http.Client{Transport: c, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return ErrRedirects
		}
		return nil
	}}
	if o.Requests > 0 {
		c.requests = rate.NewLimiter(rate.Limit(o.Requests), 1)
	}
	if o.Octets > 0 {
		c.octets = rate.NewLimiter(rate.Limit(o.Octets), int(min(o.Octets, 1<<20)))
	}
	return c
}

// Counts returns how many requests were made and how many octets of bodies were read.
func (c *Client) Counts() (requests, octets int64) { return c.made.Load(), c.read.Load() }

// A StatusError is an answer with another status than the ones asked for.
type StatusError struct {
	URI    string
	Status int
	after  time.Duration
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.URI, e.Status, http.StatusText(e.Status))
}

// Status returns the status of a [StatusError], 0 for other errors.
func Status(err error) int {
	var s *StatusError
	if !errors.As(err, &s) {
		return 0
	}
	return s.Status
}

// Refused returns the refusal of an address that led to an error, nil if none did.
func Refused(err error) *outbound.RefusedError {
	var refused *outbound.RefusedError
	errors.As(err, &refused)
	return refused
}

// IsGone reports whether err says that a resource is not there: 404 or 410.
func IsGone(err error) bool {
	return Status(err) == http.StatusNotFound || Status(err) == http.StatusGone
}

// An Answer is one to a GET. Its body ends within the limits of the [Client].
type Answer struct {
	Status int
	Header http.Header
	URL    *url.URL // after redirects
	Body   io.Reader
}

// Modified returns the time in Last-Modified, zero without one.
func (a *Answer) Modified() time.Time {
	t, _ := http.ParseTime(a.Header.Get("Last-Modified"))
	return t
}

// Request is what to ask for.
type Request struct {
	URI    string
	Header http.Header
	Accept []int // statuses beside 200
	Plain  bool  // without content codings

	// Wait lets the server answer so much later, when there is something new (RFC 7240,
	// Prefer: wait). Of many such requests at a time some are made without.
	Wait time.Duration
}

// Get makes a request and gives take the answer. It tries again after errors that pass,
// of the request or of reading in take; so take may be called several times.
func (c *Client) Get(ctx context.Context, r Request, take func(*Answer) error) error {
	end, err := c.begin(ctx, &r)
	if err != nil {
		return err
	}
	defer end()
	for try := 1; ; try++ {
		if err := c.once(ctx, &r, take); !c.again(ctx, err, try) {
			return err
		}
	}
}

// again reports whether to make a request again after an error, and waits until then.
func (c *Client) again(ctx context.Context, err error, try int) bool {
	pause, again := c.pause(err, try)
	return again && ctx.Err() == nil && c.sleep(ctx, pause) == nil
}

// begin waits for the turn of a request. Requests with Wait have turns of their own, so
// that they keep nobody from the others.
func (c *Client) begin(ctx context.Context, r *Request) (end func(), err error) {
	if r.Wait > 0 {
		select {
		case c.waits <- struct{}{}:
			return func() { <-c.waits }, nil
		default:
			r.Wait = 0
		}
	}
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// passing is an error that may pass, in reading an answer.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passes reports whether an error is one of the way to a server, and may pass.
func Passes(err error) bool {
	var p passing
	return errors.As(err, &p)
}

// pause returns how long to wait before a request is made again, if it is.
func (c *Client) pause(err error, try int) (time.Duration, bool) {
	var s *StatusError
	var p passing
	switch {
	case err == nil || try >= c.o.Tries || errors.Is(err, ErrRedirects) || Refused(err) != nil:
		return 0, false
	case errors.As(err, &s):
		switch s.Status {
		case 408, 429, 500, 502, 503, 504:
		default:
			return 0, false
		}
		if s.after > 0 {
			return s.after, s.after <= maxAfter
		}
	case !errors.As(err, &p):
		return 0, false
	}
	d := min(c.o.Pause<<(try-1), maxPause)
	return d/2 + rand.N(d/2+1), true
}

func (c *Client) once(ctx context.Context, r *Request, take func(*Answer) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URI, nil)
	if err != nil {
		return err
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return fmt.Errorf("%.200s: not an http or https URI", r.URI)
	}
	maps.Copy(req.Header, r.Header)
	if seconds := int(r.Wait / time.Second); seconds > 0 {
		req.Header.Set("Prefer", wait+strconv.Itoa(seconds))
	}
	if r.Plain {
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, ErrRedirects) {
		return err
	}
	if err != nil {
		return passing{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && !slices.Contains(r.Accept, resp.StatusCode) {
		io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection is of further use
		return &StatusError{URI: r.URI, Status: resp.StatusCode, after: retryAfter(resp.Header)}
	}
	err = take(&Answer{Status: resp.StatusCode, Header: resp.Header, URL: resp.Request.URL, Body: resp.Body})
	if b := resp.Body.(*body); err != nil && b.err != nil && b.err != io.EOF && ctx.Err() == nil {
		return passing{fmt.Errorf("%s: %w", r.URI, err)}
	}
	return err
}

// wait begins the field Prefer of a request whose answer may come so many seconds later.
const wait = "wait="

// RoundTrip makes a request within the rate, with credentials if it is for the Source, and
// watches its answer until the body is closed. It is [http.RoundTripper].
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.requests != nil {
		if err := c.requests.Wait(req.Context()); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	req = req.Clone(ctx)
	if c.named(req.URL) {
		maps.Copy(req.Header, c.o.Header)
	}
	if c.o.UserAgent != "" {
		req.Header.Set("User-Agent", c.o.UserAgent)
	}
	later := time.Duration(0)
	if seconds, ok := strings.CutPrefix(req.Header.Get("Prefer"), wait); ok {
		n, _ := strconv.Atoi(seconds)
		later = time.Duration(n) * time.Second
	}
	c.made.Add(1)
	b := &body{client: c, ctx: ctx, cancel: cancel}
	b.timer = time.AfterFunc(later+c.o.Timeout, b.look)
	resp, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		b.timer.Stop()
		return nil, b.cause(err)
	}
	b.timer.Reset(c.o.Timeout)
	b.in, resp.Body = resp.Body, b
	return resp, nil
}

func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return max(time.Duration(min(n, 1<<20))*time.Second, time.Millisecond)
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), time.Millisecond)
	}
	return 0
}

// body counts, limits the rate, and ends an answer without progress.
type body struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	in     io.ReadCloser
	got    atomic.Int64 // since the last look
	err    error
}

// Read is [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if l := b.client.octets; l != nil {
		p = p[:min(len(p), l.Burst())]
	}
	n, err := b.in.Read(p)
	b.got.Add(int64(n))
	b.client.read.Add(int64(n))
	if err == nil && b.client.octets != nil {
		began := time.Now()
		err = b.client.octets.WaitN(b.ctx, n)
		if time.Since(began) > time.Millisecond {
			b.got.Add(leastOctets) // we waited, not the server
		}
	}
	b.err = b.cause(err)
	return n, b.err
}

// cause returns why the request was ended, or else the error.
func (b *body) cause(err error) error {
	if err != nil && err != io.EOF && errors.Is(context.Cause(b.ctx), ErrSlow) {
		return ErrSlow
	}
	return err
}

func (b *body) look() {
	if b.got.Swap(0) < leastOctets {
		b.cancel(ErrSlow)
		return
	}
	b.timer.Reset(b.client.o.Timeout)
}

// Close ends the request.
func (b *body) Close() error {
	b.timer.Stop()
	err := b.in.Close()
	b.cancel(nil)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// OriginOf returns scheme and host of a URI, in their normal form.
func OriginOf(uri string) string {
	if normal, err := wellknown.Normal(uri); err == nil {
		uri = normal
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// named reports whether a URL is at the origin of the Source.
func (c *Client) named(u *url.URL) bool {
	return u.Scheme+"://"+u.Host == c.o.Origin || OriginOf(u.String()) == c.o.Origin
}

// HTTP returns an HTTP client for single requests with the settings of the Client. A GET
// is tried again after a passing error.
func (c *Client) HTTP() *http.Client {
	h := *c.http
	h.Transport = single{c}
	return &h
}

type single struct{ c *Client }

// RoundTrip is [http.RoundTripper].
func (s single) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := s.c.RoundTrip(req)
		failed := error(passing{err})
		switch {
		case err == nil && resp.StatusCode >= 400:
			failed = &StatusError{URI: req.URL.String(), Status: resp.StatusCode, after: retryAfter(resp.Header)}
		case err == nil:
			return resp, nil
		}
		if req.Method != http.MethodGet || !s.c.again(req.Context(), failed, try) {
			return resp, err
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

// newTransport returns a transport that connects to the Source that the operator named, to
// proxies of the environment, and else to allowed addresses only: a Source names hosts in its
// documents and redirects, and its copy must not have answers from the private network of
// this machine.
func newTransport(o *Options) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxConnsPerHost = o.Connections + maxWaits
	t.MaxIdleConnsPerHost, t.MaxIdleConns = t.MaxConnsPerHost, 2*t.MaxConnsPerHost
	t.ResponseHeaderTimeout = 0 // long polls; see watch
	named := map[string]bool{}
	for _, addr := range addressesOf(o.Origin) {
		named[addr] = true
	}
	var proxies sync.Map // by address
	t.Proxy = func(req *http.Request) (*url.URL, error) {
		proxy, err := http.ProxyFromEnvironment(req)
		if proxy == nil || err != nil {
			return nil, err
		}
		for _, addr := range addressesOf(proxy.String()) {
			proxies.Store(addr, true)
		}
		for _, addr := range addressesOf(req.URL.String())[:1] {
			if !named[addr] {
				err = o.Addresses.Literal(addr)
			}
		}
		return proxy, err
	}
	dialer := net.Dialer{Timeout: 30 * time.Second}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, proxy := proxies.Load(addr); proxy || named[addr] {
			return dialer.DialContext(ctx, network, addr)
		}
		return o.Addresses.Dial(ctx, dialer, network, addr)
	}
	return t
}

// addressesOf returns what a transport connects to for a URL, as host:port. A host with a
// default port is named with both of them: many sites redirect from http to https.
func addressesOf(rawURL string) []string {
	if normal, err := wellknown.Normal(rawURL); err == nil {
		rawURL = normal
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return []string{""}
	}
	host := u.Hostname()
	switch port := u.Port(); {
	case port == "443", port == "" && u.Scheme == "https":
		return []string{net.JoinHostPort(host, "443"), net.JoinHostPort(host, "80")}
	case port == "80", port == "" && u.Scheme == "http":
		return []string{net.JoinHostPort(host, "80"), net.JoinHostPort(host, "443")}
	case port == "": // of a proxy
		return []string{net.JoinHostPort(host, "1080")}
	default:
		return []string{net.JoinHostPort(host, port)}
	}
}

// ErrCoding says that an answer is in a content coding that cannot be decoded.
var ErrCoding = errors.New("content coding")

const maxCodings = 3 // of an answer

// decoders are the content codings that can be decoded (RFC 9110, 8.4.1); nil: a known one
// that cannot. Some servers use them although asked not to, name what is no coding, or name
// one of a body that is in none: such a body is returned as it is.
var decoders = map[string]func(*bufio.Reader) (io.ReadCloser, error){
	"gzip":    ungzip,
	"x-gzip":  ungzip,
	"deflate": inflate,
	"zstd":    unzstd,
	"br":      nil, "compress": nil, "x-compress": nil, "dcb": nil, "dcz": nil,
}

func begins(b *bufio.Reader, magic string) bool {
	head, _ := b.Peek(len(magic))
	return string(head) == magic
}

func ungzip(b *bufio.Reader) (io.ReadCloser, error) {
	if !begins(b, "\x1f\x8b") {
		return io.NopCloser(b), nil
	}
	return gzip.NewReader(b)
}

func inflate(b *bufio.Reader) (io.ReadCloser, error) {
	if h, err := b.Peek(2); err == nil && (h[0]&15 != 8 || (int(h[0])<<8|int(h[1]))%31 != 0) {
		return flate.NewReader(b), nil // without the frame of zlib, as some servers have it
	}
	return zlib.NewReader(b)
}

func unzstd(b *bufio.Reader) (io.ReadCloser, error) {
	if !begins(b, "\x28\xb5\x2f\xfd") {
		return io.NopCloser(b), nil
	}
	z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}

// codings returns the content codings of an answer that mean something, in their order.
func (a *Answer) codings() (all []string) {
	for _, field := range a.Header.Values("Content-Encoding") {
		for name := range strings.SplitSeq(field, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
				if _, known := decoders[name]; known {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// Coded reports whether the body is in a content coding.
func (a *Answer) Coded() bool { return len(a.codings()) > 0 }

// IsArchive reports whether the resource of a URI is itself a compressed file, by its name or
// type: many servers name its format as a content coding.
func (a *Answer) IsArchive(uri string) bool {
	switch t, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";"); strings.ToLower(strings.TrimSpace(t)) {
	case "application/gzip", "application/x-gzip", "application/zstd", "application/zlib":
		return true
	}
	uri, _, _ = strings.Cut(uri, "?")
	switch strings.ToLower(path.Ext(uri)) {
	case ".gz", ".tgz", ".gzip", ".svgz", ".warc", ".zst", ".br", ".z", ".zz":
		return true
	}
	return false
}

// Decode returns the body without its content codings. Errors of these wrap [ErrCoding].
func (a *Answer) Decode() (io.ReadCloser, error) {
	names := a.codings()
	if len(names) > maxCodings {
		return nil, fmt.Errorf("%w: %q are more than %d", ErrCoding, names, maxCodings)
	}
	in := io.NopCloser(a.Body)
	for i := len(names) - 1; i >= 0; i-- {
		decode := decoders[names[i]]
		if decode == nil {
			return nil, fmt.Errorf("%w: %s, not asked for, and not decoded here", ErrCoding, names[i])
		}
		next, err := decode(bufio.NewReader(in))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCoding, names[i], err)
		}
		in = decoding{next, names[i]}
	}
	return in, nil
}

// decoding says of which coding an error is.
type decoding struct {
	io.ReadCloser
	name string
}

func (d decoding) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, ErrCoding) {
		err = fmt.Errorf("%w: %s: %w", ErrCoding, d.name, err)
	}
	return n, err
}
