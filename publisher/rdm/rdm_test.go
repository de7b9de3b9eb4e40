package rdm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
)

var ctx = context.Background()

// A clock stands still until it is set. The index keeps times in order all the
// same, a microsecond apart.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMicro(c.at.Load()).UTC() }
func (c *clock) set(text string) {
	t, err := time.Parse("15:04:05.999", text)
	if err != nil {
		panic(err)
	}
	day := time.Date(2010, 4, 20, 0, 0, 0, 0, time.UTC)
	c.at.Store(day.Add(t.Sub(t.Truncate(24 * time.Hour))).UnixMicro())
}

// A site is a service with a handler before it.
type site struct {
	t      testing.TB
	clock  *clock
	svc    *queuefs.Service
	q      *queuefs.Queue
	o      rdm.Options
	h      *rdm.Handler
	logged []error
}

// newSite makes the service of the examples: queues ingest and access, and
// no job.
func newSite(t testing.TB, o rdm.Options) *site {
	t.Helper()
	s := &site{t: t, clock: &clock{}}
	s.clock.set("16:00:00")
	dir := t.TempDir()
	err := home.Init(dir, home.ServiceInfo{Name: "Cutie01", Identifier: "uc3:cutie/01", Description: "UC3 queuing service",
		BaseURI: "http://cutie.cdlib.org/", SupportURI: "mailto:merritt-support@cdlib.org", Created: s.clock.now()})
	if err != nil {
		t.Fatal(err)
	}
	if s.svc, err = queuefs.Open(dir, queuefs.Options{Now: s.clock.now, Segment: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.svc.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, info := range []home.QueueInfo{
		{Identifier: "ingest", Description: "UC3 primary ingest queue", VerifyOnWrite: true}, {Identifier: "access", Description: "Access assembly queue", VerifyOnWrite: true}} {
		info.CullingSize, info.CullingAge = -1, -1
		if _, err := s.svc.CreateQueue(ctx, info); err != nil {
			t.Fatal(err)
		}
	}
	s.q, _ = s.svc.Queue("ingest")
	o.Now = s.clock.now
	o.Log = func(_ *http.Request, err error) { s.logged = append(s.logged, err) }
	if o.Allow == nil {
		o.Allow = func(http.Header, *http.Request, web.Right, string) error { return nil }
	}
	if o.User == nil {
		o.User = func(context.Context) string { return "" }
	}
	s.o, s.h = o, rdm.New(s.svc, o)
	return s
}

func (s *site) submit(m job.Meta, payload string) job.ID {
	s.t.Helper()
	sub := s.q.Begin()
	defer sub.Discard()
	d, err := sub.Add(m)
	if err == nil {
		_, err = io.WriteString(d, payload)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	jobs, err := sub.Commit(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return jobs[0].ID
}

// fill adds the three jobs of the examples: consumed, pending and deleted.
func (s *site) fill() {
	s.t.Helper()
	s.submit(job.Meta{Filename: "a.bin", Submitter: "mrt-ingest/0.6"}, "hello\n")
	s.clock.set("16:01:05.120")
	s.submit(job.Meta{Filename: "b.bin", Submitter: "curl/7.88.1", Sidecar: "profile=uc3_content; note=first\nsecond line"}, "hello\n")
	s.clock.set("16:10:00")
	id := s.submit(job.Meta{Filename: "c.bin"}, "")
	s.clock.set("16:30:00")
	if _, err := s.q.Next(ctx, "consumer"); err != nil {
		s.t.Fatal(err)
	}
	s.clock.set("17:00:00")
	if _, err := s.q.Delete(ctx, id); err != nil {
		s.t.Fatal(err)
	}
}

// An answer is what came back, and the objects in it.
type answer struct {
	*http.Response
	body    string
	objects []soif.Object
}

func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	w := httptest.NewRecorder()
	web.NewRouter(web.Plain, s.h.Routes()...).ServeHTTP(w, r)
	a := answer{Response: w.Result(), body: w.Body.String()}
	if a.Header.Get("Content-Type") == rdm.MediaType && r.Method != "HEAD" && a.Header.Get("Content-Encoding") == "" {
		in := soif.NewReader(strings.NewReader(a.body))

		for {
			o, err := in.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				s.t.Fatalf("%v in %s", err, a.body)
			}
			a.objects = append(a.objects, o)
		}
	}
	return a
}

func (s *site) get(query string) answer {
	s.t.Helper()
	return s.do(httptest.NewRequest("GET", rdm.Path+query, nil))
}

func (s *site) post(message string) answer {
	s.t.Helper()
	r := httptest.NewRequest("POST", rdm.Path, strings.NewReader(message))
	r.Header.Set("Content-Type", rdm.MediaType)
	r.Header.Set("User-Agent", "agent/1")
	return s.do(r)
}

// urls are the last segments of the URLs of the descriptions.
func (a *answer) urls() string {
	var all []string
	for _, o := range a.objects {
		if o.Is("DOCUMENT") {
			all = append(all, o.URL[strings.LastIndexByte(o.URL, '/')+len("/j00000000000"):])
		}
	}
	return strings.Join(all, " ")
}

func (a *answer) failure() string {
	if len(a.objects) == 0 {
		return ""
	}
	return a.objects[0].Value("RDM-Error-Message")
}

func shared(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("CUTIE_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(dir, "vectors", "rdm", "cutie", name))
	if err != nil {
		t.Skipf("no published test material: %v (set CUTIE_SHARED)", err)
	}
	return string(b)
}

// own spells the identifiers of the examples as ours are.
var own = strings.NewReplacer("20100420T160000.000-0001", "j000000000001", "20100420T160105.120-0002", "j000000000002",
	"20100420T161000.000-0003", "j000000000003", "20100420T170000.000-0004", "j000000000004", "20100420T170000.001-0005", "j000000000005")

// published compares an answer with an example. It may have more attributes; ours differ in
// digests, which are SHA-256, in dates of files, and in the default view, which is all.
func (s *site) published(name string, got []soif.Object) {
	s.t.Helper()
	differ := []string{"Digest-Type", "Digest-Value", "SD-Last-Modified", "SD-Expires", "Last-Modified", "Sample-RD", "Default-View-Attribute"}
	in := soif.NewReader(strings.NewReader(shared(s.t, name)))
	for i := 0; ; i++ {
		want, err := in.Read()
		if err == io.EOF && i == len(got) {
			return
		}
		if err != nil || i == len(got) || got[i].Type != want.Type || got[i].URL != own.Replace(want.URL) {
			s.t.Errorf("%s: got %+v, want %+v, %v", name, got[min(i, len(got)):], want, err)
			return
		}
		for _, a := range want.Attributes {
			value, ok := got[i].Lookup(a.Name)
			if base, _ := soif.Base(a.Name); base != "Default-View-Attribute" && !ok || !slices.Contains(differ, base) && value != own.Replace(a.Value) {
				s.t.Errorf("%s: %s: got %q, want %q", name, a.Name, value, own.Replace(a.Value))
			}
		}
	}
}

func TestPublishedExamples(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	for _, tt := range []struct {
		request, response string
		status            int
	}{
		{"01-rd-request-all.rdm", "02-rd-response-all.rdm", 200},
		{"03-rd-request-since.rdm", "04-rd-response-since.rdm", 200},
		{"05-rd-request-deleted.rdm", "06-rd-response-deleted.rdm", 200},
		{"09-server-request.rdm", "10-server-response.rdm", 200},
		{"11-schema-request.rdm", "12-schema-response.rdm", 200},
		{"15-taxonomy-request.rdm", "16-taxonomy-response.rdm", 200},
		{"17-taxonomy-request-children.rdm", "18-taxonomy-response-children.rdm", 200},
		{"19-status-request.rdm", "20-status-response.rdm", 200},
		{"21-submit.rdm", "24-submit-status.rdm", 200},
	} {
		a := s.post(shared(t, tt.request))
		if a.StatusCode != tt.status {
			t.Errorf("%s: got %d", tt.request, a.StatusCode)
		}
		s.published(tt.response, a.objects)
		if a.Header.Get("Content-Length") != fmt.Sprint(len(a.body)) || a.Header.Get("Expires") == "" {
			t.Errorf("%s: got header %v", tt.request, a.Header)
		}
	}
	a := s.post(strings.Replace(strings.Replace(shared(t, "01-rd-request-all.rdm"), "/ingest", "/nosuch", 1), "{37}:", "{37}:", 1))
	if s.published("08-error-catalog.rdm", a.objects); a.StatusCode != 404 {
		t.Errorf("unknown catalog: got %d", a.StatusCode)
	}
	for _, a := range s.post(shared(t, "13-schema-request-view.rdm")).objects[1].Attributes {
		if base, n := soif.Base(a.Name); n > 0 && base != "SOIF-Attribute" && base != "Default-View-Attribute" {
			t.Errorf("got %s, which is not in the view", a.Name)
		}
	}
	a = s.get("?type=rd-request&scope=since+Tue,+20+Apr+2010+23:00:00+GMT")
	if s.published("07-rd-response-0.rdm", a.objects); a.StatusCode != 200 {
		t.Errorf("nothing: got %d", a.StatusCode)
	}
	// The job that was pending is deleted.
	a = s.post(own.Replace(strings.Replace(shared(t, "23-submit-deleted.rdm"), "20100420T160105.120-0002", "j000000000002", 1)))
	if st, _ := s.q.Status(2); a.StatusCode != 200 || st != job.Deleted || a.objects[1].Value("RD-URL-1") != "http://cutie.cdlib.org/state/ingest/j000000000002" {
		t.Errorf("delete: got %d %+v", a.StatusCode, a.objects)
	}
	// What was submitted is what was sent.
	for id, want := range map[job.ID]string{4: "hello\n",
		5: "@DOCUMENT { http://src.example.org/objects/17\nTitle{9}:\tobject 17\nAuthor-1{6}:\tA. One\nAuthor-2{6}:\tB. Two\n}\n"} {
		p, err := s.q.Payload(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(p)
		if p.Close(); err != nil || string(got) != want {
			t.Errorf("payload of %v: got %q, %v", id, got, err)
		}
	}
	if j, err := s.q.Job(4); err != nil || j.Filename != "c.bin" || j.Sidecar != "profile=uc3_content" || j.Submitter != "agent/1" || j.MediaType != "" {
		t.Errorf("got %+v, %v", j, err)
	}
	if len(s.logged) > 0 {
		t.Errorf("logged %v", s.logged)
	}
}

// A message over HTTP/1.0 without a length is refused: it would seem empty.
func TestLengthOverHTTP10(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for length, status := range map[string]int{"": 411, "0": 400} {
		r := httptest.NewRequest("POST", rdm.Path, http.NoBody)
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
		if length != "" {
			r.Header.Set("Content-Length", length)
		}
		if a := s.do(r); a.StatusCode != status || a.failure() == "" {
			t.Errorf("length %q: got %d %q", length, a.StatusCode, a.failure())
		}
	}
}

// headed is a submission to a catalog.
func headed(typ, csid string, objects ...soif.Object) string {
	head := soif.Object{Type: "RDMHEADER"}
	head.Add("RDM-Version", "1.0")
	head.Add("RDM-Type", typ)
	if csid != "" {
		head.Add("Catalog-Service-ID", csid)
	}
	text := head.Append(nil)
	for i := range objects {
		text = objects[i].Append(text)
	}
	return string(text)
}

// The examples of the specification work as they are printed, with wrong sizes, {x},
// blanks for TABs and all of an object in a line.
func TestPrintedExamples(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	const own = "x-catalog://cutie.cdlib.org:80/techpubs"
	if _, err := s.svc.CreateQueue(ctx, home.QueueInfo{Identifier: "techpubs", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ message, kind, catalog string }{
		{"@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{14}: status-request }", "status-response", ""},
		{"@RDMHEADER { -\nRDM-Version{3}: 1.0\nRDM-Type{9}: rd-request\nRDM-Query-Language{8}: gatherer\nCatalog-Service-ID{39}: x-catalog://www.netscape.com:80/techpubs\n}\n", "rd-response", own},
		{"@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{9}: rd-request RDM-Query-Language{8}: gatherer } @RDMQUERY { - Scope{34}: since Sun, 06 Nov 1994 08:49:37 GMT }", "rd-response", ""},
		{"@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{9}: rd-request RDM-Query-Language{8}: gatherer } @RDMQUERY { - Scope{x}: all View-Attributes{x}: URL,Title,Last-Modified }", "rd-response", ""},
		{"@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{9}: rd-request } @RDMQUERY { - View-Attributes{x}: URL,Title,Author,Last-Modified,Score View-Hits{x}: 10 View-Order{x}: -Score,+Title }", "rd-response", ""},
		{"@RDMHEADER { - RDM-Version{x}: 1.0 RDM-Type{x}: schema-description-request RDM-Query-Language{x}: schema-basic } @RDMQUERY { - Scope{x}: defined Default-View-Attribute View-Attributes{x}: soif-attribute,default-view-attribute }", "schema-description-response", ""},
		{"@RDMHEADER { - RDM-Version{x}: 1.0 RDM-Type{x}: taxonomy-description-request RDM-Query-Language{x}: taxonomy-basic } @RDMQUERY { - Scope{x}: anklebiter ROOT }", "taxonomy-description-response", ""},
		{"@RDMHEADER { - RDM-Version{3}: 1.0 RDM-Type{11}: rd-response } @DOCUMENT { https://www.netscape.com:80/ Title{20}: Welcome to Netscape! Last-Modified{29}: Thu, 16 May 1996 11:45:39 GMT }", "status-response", ""},
	} {
		r := httptest.NewRequest("POST", rdm.Path, strings.NewReader(tt.message))
		r.Host = "www.netscape.com:80"
		a := s.do(r)
		if a.StatusCode != 200 || a.objects[0].Value("RDM-Type") != tt.kind || tt.catalog != "" && a.objects[0].Value("Catalog-Service-ID") != tt.catalog {
			t.Errorf("%s: got %d %q", tt.message, a.StatusCode, a.failure())
		}
		if said := a.objects[0].Value("RDM-Mended"); !strings.Contains(said, `attribute "RDM-Version": `) {
			t.Errorf("%s: got %q, want what was mended", tt.message, said)
		}
	}
	a := s.get("?type=rd-request&view-attributes=title,last-modified&view-order=Last-Modified,-Identifier&view-hits=3..")
	want := object("DOCUMENT", "https://www.netscape.com:80/", "Title", "Welcome to Netscape!", "Last-Modified", "Thu, 16 May 1996 11:45:39 GMT")
	if len(a.objects) != 2 || !reflect.DeepEqual(a.objects[1], want) {
		t.Errorf("got %+v, want %+v", a.objects, want)
	}
}

const ownURL = "http://cutie.cdlib.org/state/ingest/j00000000000"

func submission(typ string, objects ...soif.Object) string { return headed(typ, "", objects...) }

func object(typ, url string, pairs ...string) soif.Object {
	o := soif.Object{Type: typ, URL: url}
	for i := 0; i < len(pairs); i += 2 {
		o.Add(pairs[i], pairs[i+1])
	}
	return o
}

// Objects beyond the limits of their user are rejected, the others are taken.
func TestSubmittersKeepWithinTheirLimits(t *testing.T) {
	s := newSite(t, rdm.Options{User: func(context.Context) string { return "ann" }})
	if _, err := s.svc.SetQueue(ctx, "ingest", func(i *home.QueueInfo) error { i.Limits = job.Limits{Active: 2, Upload: 10}; return nil }); err != nil {
		t.Fatal(err)
	}
	one := func(payload string) soif.Object { return object("DOCUMENT", "", "Payload", payload) }
	a := s.post(submission("rd-response", one("12345"), one("123456"), one("12345"), one("x")))
	if a.StatusCode != 200 || len(a.objects) != 2 {
		t.Fatalf("got %d %s", a.StatusCode, a.failure())
	}
	for name, want := range map[string]string{"Accepted": "2", "Rejected": "2",
		"Error-2": "ingest: ann has 5 octets in jobs that have not ended, and may have 10; wait for some to end, or delete some",
		"Error-4": "ingest: ann has 2 jobs that wait or are in work, and may have 2; wait for some to end, or delete some"} {
		if got := a.objects[1].Value(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if a := s.post(submission("rd-response", one("x"))); a.StatusCode != 429 {
		t.Errorf("got %d, want 429", a.StatusCode)
	}
}

func TestContentCodingsOfMessages(t *testing.T) {
	s := newSite(t, rdm.Options{MaxBody: 4000})
	for range 100 {
		s.submit(job.Meta{Sidecar: strings.Repeat("a: b\n", 100)}, "x")
	}
	packed := func(text string) *bytes.Buffer {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return &b
	}
	for _, tt := range []struct {
		coding string
		body   io.Reader
		status int
		fail   string
	}{
		{"gzip", packed(submission("status-request")), 200, ""},
		{"X-GZIP", packed(submission("status-request")), 200, ""},
		{"identity", strings.NewReader(submission("status-request")), 200, ""},
		{"br", packed(""), 415, "unsupported content coding, gzip is taken"},
		{"gzip", strings.NewReader("x"), 400, "message is not what its content coding says: unexpected EOF"},
		{"gzip", packed(submission("status-request") + strings.Repeat(" ", 5000)), 413, "message has more than 4000 bytes"},
	} {
		r := httptest.NewRequest("POST", rdm.Path, tt.body)
		r.Header.Set("Content-Encoding", tt.coding)
		if a := s.do(r); a.StatusCode != tt.status || a.failure() != tt.fail {
			t.Errorf("%s: got %d %q, want %d %q", tt.coding, a.StatusCode, a.failure(), tt.status, tt.fail)
		}
	}
	plain := s.get("?type=rd-request")
	if plain.Header.Get("Content-Length") != "" || plain.urls() == "" || len(plain.objects) != 101 || plain.objects[0].Value("RDM-Response-Interpret") != "100 DOCUMENT objects" {
		t.Errorf("got %v, %d objects", plain.Header, len(plain.objects))
	}
}

// A request that is given up while the catalog is read for the first time loses nothing.
func TestCatalogIsReadOn(t *testing.T) {
	s := newSite(t, rdm.Options{})
	if a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "one"))); a.StatusCode != 200 {
		t.Fatal(a.failure())
	}
	s.h = rdm.New(s.svc, s.o)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	s.do(httptest.NewRequest("GET", rdm.Path+"?type=rd-request", nil).WithContext(gone))
	a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "two")))
	if a = s.get("?type=rd-request&view-attributes=Title"); len(a.objects) != 2 || a.objects[1].Value("Title") != "two" {
		t.Errorf("got %+v, want the description once", a.objects)
	}
}

// A purse is a budget for one client.
type purse struct{ left int }

func (p *purse) TakeMany(_ netip.Addr, n int) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

func (p *purse) LeaveMany(_ netip.Addr, n int) { p.left += n }

// within sends a request of a client with so much memory left, which it gives back.
func (s *site) within(left int, r *http.Request) answer {
	s.t.Helper()
	p, a := &purse{left}, new(buffers.Account)
	a.Open(p, netip.Addr{})
	got := s.do(r.WithContext(buffers.With(r.Context(), a)))
	if a.Close(); p.left != left {
		s.t.Errorf("%d of %d bytes were given back", p.left, left)
	}
	return got
}

// A header and a query are short, objects take memory one after the other, and so do the
// order of an answer and what is held back of it.
func TestExchangesKeepWithinTheMemoryOfTheirClient(t *testing.T) {
	asked := 0
	s := newSite(t, rdm.Options{Allow: func(http.Header, *http.Request, web.Right, string) error { asked++; return nil }})
	for range 4 {
		s.submit(job.Meta{Sidecar: "a: " + strings.Repeat("long ", 1000)}, "x")
	}
	get := func(query string) *http.Request { return httptest.NewRequest("GET", rdm.Path+query, nil) }
	post := func(text string) *http.Request { return httptest.NewRequest("POST", rdm.Path, strings.NewReader(text)) }
	long := strings.Repeat("x", 70<<10)
	large := object("DOCUMENT", "", "Payload", strings.Repeat("x", 1<<20))
	for name, tt := range map[string]struct {
		r            *http.Request
		left, status int
	}{
		"header":        {post("@RDMHEADER { -\nX{71680}:\t" + long), 1 << 30, 413},
		"query":         {post(submission("rd-request", object("RDMQUERY", "", "X", long))), 1 << 30, 413},
		"object":        {post(submission("rd-response", large)), 1 << 20, 503},
		"objects":       {post(submission("rd-response", large, large, large, large)), 3 << 20, 200},
		"order":         {get("?type=rd-request&view-order=-Size"), 100, 503},
		"smaller order": {get("?type=rd-request&view-order=-Size"), 1 << 20, 200},
	} {
		asked = 0
		if a := s.within(tt.left, tt.r); a.StatusCode != tt.status || (asked == 0) != (tt.status == 413) {
			t.Errorf("%s: got status %d, want %d; the right was asked for %d times", name, a.StatusCode, tt.status, asked)
		}
	}
	whole, streamed := s.within(1<<20, get("?type=rd-request&view-hits=4")), s.within(30<<10, get("?type=rd-request&view-hits=4"))
	if whole.Header.Get("Content-Length") == "" || streamed.Header.Get("Content-Length") != "" ||
		whole.body != streamed.body || len(whole.body) < 4<<10 {
		t.Errorf("got %d bytes with memory and %d without", len(whole.body), len(streamed.body))
	}
}

// A copy is what a client has that asks since the last time.
type copy struct {
	jobs  map[string]string // status by URL
	scope map[string]string
	sent  int
}

// follow asks once for what is deleted and then for the rest.
func (c *copy) follow(t *testing.T, server string) {
	t.Helper()
	for _, typ := range []string{"rd-request-deleted", "rd-request"} {
		head, err := rdm.Begin(server, typ, "ingest")
		if err != nil {
			t.Fatal(err)
		}
		query := rdm.Query(c.scope[typ], "", "", "")
		r, err := rdm.Post(ctx, http.DefaultClient, server, "follower/1", head, query.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for {
			o, err := r.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.sent++; typ == "rd-request-deleted" {
				delete(c.jobs, o.URL)
			} else {
				c.jobs[o.URL] = o.Value("Status")
			}
		}
		if r.Until.IsZero() {
			t.Fatal("answer does not say until when it is")
		}
		c.scope[typ] = rdm.Since(r.Until)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that polls while jobs come, are taken, deleted, put back and culled
// ends with what there is.
func TestPollingClientMissesNothing(t *testing.T) {
	s := newSite(t, rdm.Options{})
	srv := httptest.NewServer(web.NewRouter(web.Plain, s.h.Routes()...))
	defer srv.Close()
	url, err := rdm.ServerURL(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.svc.SetQueue(ctx, "ingest", func(info *home.QueueInfo) error { info.CullingSize = 20; return nil }); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// A quarter of a second passes with each change.
				s.clock.at.Add(250_000)
				last := job.ID(max(1, s.q.State().Seq))
				var err error
				switch r.IntN(8) {
				case 0, 1, 2:
					s.submit(job.Meta{}, fmt.Sprint(i))
				case 3, 4:
					_, err = s.q.Next(ctx, "c")
				case 5:
					_, err = s.q.Delete(ctx, 1+job.ID(r.Uint64N(uint64(last))))
				case 6:
					_, err = s.q.Requeue(ctx, 1+job.ID(r.Uint64N(uint64(last))))
				case 7:
					for _, err = range s.svc.Cull(ctx, queuefs.CullOptions{}) {
						if err != nil {
							t.Error(err)
						}
					}
				}
				_ = err // of jobs that are not there, or elsewhere
			}
		})
	}
	c := &copy{jobs: map[string]string{}, scope: map[string]string{}}
	for range 40 {
		c.follow(t, url)
	}
	close(stop)
	wg.Wait()
	s.clock.at.Add(time.Second.Microseconds())
	c.follow(t, url)
	want := map[string]string{}
	for _, st := range []job.Status{job.Pending, job.Consumed} {
		for _, id := range s.q.IDs(index.Filter{Status: st, Limit: 1e6}) {
			want["http://cutie.cdlib.org/state/ingest/"+id.String()] = st.String()
		}
	}
	if !maps.Equal(c.jobs, want) || c.sent == 0 {
		t.Errorf("got %d jobs, want %d, after %d descriptions and %d events", len(c.jobs), len(want), c.sent, s.q.Seq())
		for url, st := range want {
			if c.jobs[url] != st {
				t.Errorf("%s: got %q, want %q", url, c.jobs[url], st)
			}
		}
	}
}
