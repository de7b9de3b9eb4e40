package rdm_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
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
	err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "Cutie01", Identifier: "uc3:cutie/01", Description: "UC3 queuing service",
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
	for _, info := range []queuefs.QueueInfo{
		{Identifier: "ingest", Description: "UC3 primary ingest queue", VerifyOnWrite: true}, {Identifier: "access", Description: "Access assembly queue", VerifyOnWrite: true}} {
		info.CullingSize, info.CullingAge = -1, -1
		if _, err := s.svc.CreateQueue(ctx, info); err != nil {
			t.Fatal(err)
		}
	}
	s.q, _ = s.svc.Queue("ingest")
	o.Now = s.clock.now
	o.Log = func(_ *http.Request, err error) { s.logged = append(s.logged, err) }
	s.h = rdm.New(s.svc, o)
	return s
}

func (s *site) submit(m queuefs.Meta, payload string) queuefs.JobID {
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
	s.submit(queuefs.Meta{Filename: "a.bin", Submitter: "mrt-ingest/0.6"}, "hello\n")
	s.clock.set("16:01:05.120")
	s.submit(queuefs.Meta{Filename: "b.bin", Submitter: "curl/7.88.1", Sidecar: "profile=uc3_content; note=first\nsecond line"}, "hello\n")
	s.clock.set("16:10:00")
	id := s.submit(queuefs.Meta{Filename: "c.bin"}, "")
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
	s.h.ServeHTTP(w, r)
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

func shared(t *testing.T, name string) string {
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

// objects reads an example. Digests are SHA-256 with us, and files have the
// dates that they have.
func (s *site) objects(text string) (list []soif.Object) {
	s.t.Helper()
	_, file := s.q.InfoFile()
	in := soif.NewReader(strings.NewReader(text))
	for {
		o, err := in.Read()
		if err == io.EOF {
			return list
		}
		if err != nil {
			s.t.Fatal(err)
		}
		o.URL = own.Replace(o.URL)
		for i := range o.Attributes {
			switch a := &o.Attributes[i]; {
			case a.Name == "Digest-Type":
				a.Value = "SHA-256"
			case a.Name == "Digest-Value":
				a.Value = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
			case strings.HasPrefix(a.Name, "Sample-RD-"):
				sample := s.objects(a.Value)
				a.Value = string(sample[0].Append(nil))
			case a.Name == "SD-Last-Modified":
				a.Value = file.Modified.UTC().Format(http.TimeFormat)
			case a.Name == "SD-Expires":
				a.Value = s.clock.now().Add(24 * time.Hour).Format(http.TimeFormat)
			case a.Name == "Last-Modified" && o.Is("SCHEMA"):
				a.Value = s.svc.Info().Modified.UTC().Format(http.TimeFormat)
			default:
				a.Value = own.Replace(a.Value)
			}
		}
		switch {
		case o.Is("SCHEMA"):
			s.viewAll(&o)
		case o.Is("RDMSERVER"):
			o.Add("Max-Message-Size", "1073741824")
			o.Add("Max-Object-Size", "16777216")
			o.Add("Max-Objects", "10000")
			o.Add("Max-Ordered", "100000")
		}
		list = append(list, o)
	}
}

// viewAll gives an example of the whole schema our default view, all attributes. The
// examples have five in it, and send all.
func (s *site) viewAll(o *soif.Object) {
	var all []soif.Attribute
	number := ""
	for _, a := range o.Attributes {
		switch base, n := soif.Base(a.Name); base {
		case "SOIF-Attribute":
			number = fmt.Sprint(n)
		case "Default-View-Attribute":
			continue
		case "Default-View-Order":
			all = append(all, soif.Attribute{Name: "Default-View-Attribute-" + number, Value: number})
			number = ""
		case "Table-Name":
			if number != "" {
				all = append(all, soif.Attribute{Name: "Default-View-Attribute-" + number, Value: number})
			}
		}
		all = append(all, a)
	}
	o.Attributes = all
}

// viewed keeps the attributes of a schema in an example of a view, and those without
// a number.
func viewed(o *soif.Object) {
	o.Attributes = slices.DeleteFunc(o.Attributes, func(a soif.Attribute) bool {
		base, n := soif.Base(a.Name)
		return n > 0 && base != "SOIF-Attribute" && base != "Default-View-Attribute"
	})
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
		{"13-schema-request-view.rdm", "12-schema-response.rdm", 200},
		{"15-taxonomy-request.rdm", "16-taxonomy-response.rdm", 200},
		{"17-taxonomy-request-children.rdm", "18-taxonomy-response-children.rdm", 200},
		{"19-status-request.rdm", "20-status-response.rdm", 200},
		{"21-submit.rdm", "24-submit-status.rdm", 200},
	} {
		a, want := s.post(shared(t, tt.request)), s.objects(shared(t, tt.response))
		if tt.request == "13-schema-request-view.rdm" {
			viewed(&want[1])
		}
		if a.StatusCode != tt.status || !reflect.DeepEqual(a.objects, want) {
			t.Errorf("%s: got %d\n%+v, want\n%+v", tt.request, a.StatusCode, a.objects, want)
		}
		if a.Header.Get("Content-Length") != fmt.Sprint(len(a.body)) || a.Header.Get("Expires") == "" {
			t.Errorf("%s: got header %v", tt.request, a.Header)
		}
	}
	a := s.post(strings.Replace(strings.Replace(shared(t, "01-rd-request-all.rdm"), "/ingest", "/nosuch", 1), "{37}:", "{37}:", 1))
	if want := s.objects(shared(t, "08-error-catalog.rdm")); a.StatusCode != 404 || !reflect.DeepEqual(a.objects, want) {
		t.Errorf("unknown catalog: got %d %+v, want %+v", a.StatusCode, a.objects, want)
	}
	a = s.get("?type=rd-request&scope=since+Tue,+20+Apr+2010+23:00:00+GMT")
	if want := s.objects(shared(t, "07-rd-response-0.rdm")); a.StatusCode != 200 || !reflect.DeepEqual(a.objects, want) {
		t.Errorf("nothing: got %d %+v, want %+v", a.StatusCode, a.objects, want)
	}
	// The job that was pending is deleted.
	a = s.post(own.Replace(strings.Replace(shared(t, "23-submit-deleted.rdm"), "20100420T160105.120-0002", "j000000000002", 1)))
	if st, _ := s.q.Status(2); a.StatusCode != 200 || st != queuefs.Deleted || a.objects[1].Value("RD-URL-1") != "http://cutie.cdlib.org/state/ingest/j000000000002" {
		t.Errorf("delete: got %d %+v", a.StatusCode, a.objects)
	}
	// What was submitted is what was sent.
	for id, want := range map[queuefs.JobID]string{4: "hello\n",
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

func TestGet(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	for _, tt := range []struct {
		query  string
		status int
		urls   string
		kind   string
		fail   string
	}{
		{"?type=rd-request", 200, "1 2", "rd-response", ""},
		{"?TYPE=RD-Request&ql=Gatherer&scope=ALL&other=1", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&csid=X-Catalogs://Cutie.cdlib.org/ingest", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&csid=x-catalog://example.com:80/access", 200, "", "rd-response", "0 results"}, // as the client calls it
		{"?rdm-type=rd-request&rdm-query-language=gatherer&catalog-service-id=x-catalog://cutie.cdlib.org:80/ingest", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&view-attributes=url,Identifier", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&view-hits=1", 200, "1", "rd-response", ""},
		{"?type=rd-request&view-hits=2..", 200, "2", "rd-response", ""},
		{"?type=rd-request&view-hits=2..9&view-order=-Identifier", 200, "1", "rd-response", ""},
		{"?type=rd-request&view-order=+Title", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&view-order=-Title", 200, "2 1", "rd-response", ""},
		{"?type=rd-request&view-order=Size,-Submitted", 200, "2 1", "rd-response", ""},
		{"?type=rd-request&view-order=Consumed", 200, "2 1", "rd-response", ""},
		{"?type=rd-request&view-order=-Score", 200, "1 2", "rd-response", ""},
		{"?type=rd-request&view-order=-RD-Last-Modified&view-hits=2..2", 200, "2", "rd-response", ""},
		{"?type=rd-request&scope=since+Tue,+20+Apr+2010+16:30:00+GMT", 200, "1", "rd-response", ""},
		{"?type=rd-request&scope=since+Tuesday,+20-Apr-10+16:30:01+GMT", 200, "", "rd-response", "0 results"},
		{"?type=rd-request&scope=since+Tue+Apr+20+16:01:05+2010", 200, "1 2", "rd-response", ""},
		{"?type=rd-request-deleted", 200, "3", "rd-response-deleted", ""},
		{"?type=status-request", 200, "", "status-response", ""},
		{"?type=schema-request&scope=defined+default-view-order", 200, "", "schema-description-response", ""},
		{"?type=schema-request&scope=defined+Nothing", 200, "", "schema-description-response", "0 results"},
		{"?type=server-request", 200, "", "server-description-response", ""},
		{"?type=taxonomy-request&scope=descendant/0+ingest:deleted", 200, "", "taxonomy-description-response", ""},

		{"", 400, "", "status-response", "no type is given, such as type=status-request"},
		{"?type=rd-response", 400, "", "status-response", "type rd-response is not asked for, but posted"},
		{"?type=x", 400, "", "status-response", `RDM-Type "x" is none of rd-request, rd-response, rd-request-deleted, rd-response-deleted, schema-description-request, schema-description-response, server-description-request, server-description-response, taxonomy-description-request, taxonomy-description-response, status-request, status-response`},
		{"?type=rd-request&type=rd-request", 400, "", "status-response", `key "type" is repeated`},
		{"?type=rd-request&ql=search", 400, "", "rd-response", "unsupported query language: search"},
		{"?type=rd-request&scope=netscape", 400, "", "rd-response", `scope "netscape" is neither all nor since DATE`},
		{"?type=rd-request&scope=since+yesterday", 400, "", "rd-response", `scope: date "yesterday" is not like Mon, 02 Jan 2006 15:04:05 GMT`},
		{"?type=rd-request&view-hits=0", 400, "", "rd-response", `View-Hits "0" is none of 10, 11..20, 11..`},
		{"?type=rd-request&view-hits=5..4", 400, "", "rd-response", `View-Hits "5..4" is none of 10, 11..20, 11..`},
		{"?type=rd-request&view-order=-", 400, "", "rd-response", `View-Order "-" names no attribute`},
		{"?type=rd-request&csid=ingest", 400, "", "rd-response", `Catalog-Service-ID "ingest" is not x-catalog://host:port/name`},
		{"?type=rd-request&csid=x-catalog://cutie.cdlib.org/..", 404, "", "rd-response", "catalog not found: .."},
		{"?type=schema-request&ql=gatherer", 400, "", "schema-description-response", "unsupported query language: gatherer"},
		{"?type=schema-request&scope=all", 400, "", "schema-description-response", `scope "all" is not defined ATTRIBUTE`},
		{"?type=taxonomy-request&scope=children", 400, "", "taxonomy-description-response", `scope "children" names no classification`},
		{"?type=taxonomy-request&scope=children+none", 404, "", "taxonomy-description-response", "classification not found: none"},
		{"?type=taxonomy-request&scope=descendant/x+ROOT", 400, "", "taxonomy-description-response", `scope "descendant/x ROOT": "x" is no depth`},
		{"?type=%zz", 400, "", "status-response", `query: invalid URL escape "%zz"`},
	} {
		a := s.get(tt.query)
		if a.StatusCode != tt.status || a.urls() != tt.urls || a.objects[0].Value("RDM-Type") != tt.kind || a.failure() != tt.fail {
			t.Errorf("%s: got %d %q %s %q", tt.query, a.StatusCode, a.urls(), a.objects[0].Value("RDM-Type"), a.failure())
		}
		head := s.do(httptest.NewRequest("HEAD", rdm.Path+tt.query, nil))
		if head.StatusCode != a.StatusCode || !reflect.DeepEqual(head.Header, a.Header) {
			t.Errorf("%s: HEAD has %d %v, GET %d %v", tt.query, head.StatusCode, head.Header, a.StatusCode, a.Header)
		}
	}
}

func TestPostRefuses(t *testing.T) {
	s := newSite(t, rdm.Options{MaxBody: 300})
	message := func(parts ...soif.Object) string {
		var b []byte
		for i := range parts {
			b = parts[i].Append(b)
		}
		return string(b)
	}
	header := func(version, typ string) soif.Object {
		return soif.Object{Type: "RDMHEADER", Attributes: []soif.Attribute{{Name: "RDM-Version", Value: version}, {Name: "RDM-Type", Value: typ}}}
	}
	for _, tt := range []struct {
		message string
		status  int
		fail    string
	}{
		{"", 400, "message is empty"},
		{"x", 400, "message is empty"},
		{"@RDMHEADER { -\nRDM-Version{3}\t1.0\n}\n", 400, `line 2: attribute "RDM-Version": : is wanted behind the size, there is "\t1.0\n}\n"`},
		{message(soif.Object{Type: "DOCUMENT"}), 400, `message begins with "DOCUMENT", not with RDMHEADER`},
		{message(header("2.0", "status-request")), 400, `RDM-Version "2.0" is not 1.0`},
		{message(header("1.1", "status-response")), 400, "a message of type status-response is of no use here; rd-response and rd-response-deleted are taken"},
		{message(header("1.0", "status-request"), header("1.0", "status-request")), 400, `"RDMHEADER" follows the header, not RDMQUERY`},
		{message(header("1.0", "status-request"), soif.Object{Type: "RDMQUERY"}, soif.Object{Type: "RDMQUERY"}), 400, `"RDMQUERY" follows the query, where the message ends`},
		{message(header("1.0", "status-request")) + strings.Repeat(" ", 300), 413, "body has 366 octets, more than 300"},
	} {
		if a := s.post(tt.message); a.StatusCode != tt.status || a.failure() != tt.fail {
			t.Errorf("%.80q: got %d %q, want %d %q", tt.message, a.StatusCode, a.failure(), tt.status, tt.fail)
		}
	}
	r := httptest.NewRequest("POST", rdm.Path, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if a := s.do(r); a.StatusCode != 415 || a.failure() != "a message is of the type application/x-rdm" {
		t.Errorf("got %d %q", a.StatusCode, a.failure())
	}
	if a := s.do(httptest.NewRequest("PUT", rdm.Path, nil)); a.StatusCode != 405 || a.Header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("got %d %v", a.StatusCode, a.Header)
	}
}

func TestHelpAndStatusPages(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for query, status := range map[string]int{"": 400, "?type=status-request": 200} {
		r := httptest.NewRequest("GET", rdm.Path+query, nil)
		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		a := s.do(r)
		if a.StatusCode != status || a.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(a.body, "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">") {
			t.Errorf("%q: got %d %v %.60q", query, a.StatusCode, a.Header, a.body)
		}
	}
}

// The catalog of messages that name none is that of cutie-info.txt, else the
// first.
func TestDefaultCatalog(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for name, want := range map[string]string{"": "x-catalog://cutie.cdlib.org:80/ingest", "access": "x-catalog://cutie.cdlib.org:80/access", "none": ""} {
		if err := s.svc.SetService(ctx, func(i *queuefs.ServiceInfo) error { i.DefaultCatalog = name; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, a := range []answer{s.get("?type=rd-request"), s.post(submission("rd-request"))} {
			if got := a.objects[0].Value("Catalog-Service-ID"); got != want || (a.StatusCode == 404) != (want == "") {
				t.Errorf("%q: got %d %q, %s", name, a.StatusCode, got, a.failure())
			}
		}
		if a := s.get("?type=rd-request&csid=x-catalog://cutie.cdlib.org/ingest"); a.StatusCode != 200 {
			t.Errorf("%q: got %d %s", name, a.StatusCode, a.failure())
		}
	}
}

func TestForeignCatalogsAreRefused(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	for csid, want := range map[string]string{
		"x-catalog://cutie.cdlib.org:80/nosuch":        "catalog not found: nosuch",
		"x-catalog://www.netscape.com:80/techpubs":     "x-catalog://www.netscape.com:80/techpubs is of another server",
		"x-catalog://cutie.cdlib.org:8080/ingest":      "x-catalog://cutie.cdlib.org:8080/ingest is of another server",
		"http://cutie.cdlib.org/ingest":                "is not x-catalog://host:port/name",
		"x-catalog://cutie.cdlib.org:80/":              "is not x-catalog://host:port/name",
		"x-catalog://cutie.cdlib.org:80/ingest/access": "catalog not found: ingest/access",
	} {
		for _, typ := range []string{"rd-request", "rd-request-deleted", "schema-description-request", "server-description-request", "taxonomy-description-request", "status-request"} {
			for _, a := range []answer{s.get("?type=" + typ + "&csid=" + csid), s.post(headed(typ, csid))} {
				if a.StatusCode != 404 && a.StatusCode != 400 || !strings.Contains(a.failure(), want) || a.urls() != "" {
					t.Errorf("%s, %s: got %d %q, want %q", typ, csid, a.StatusCode, a.failure(), want)
				}
			}
		}
	}
	if a := s.post(headed("rd-response", "x-catalog://other/ingest", object("DOCUMENT", "http://a/"))); a.StatusCode != 404 || s.q.State().Seq != 5 {
		t.Errorf("submission: got %d %q", a.StatusCode, a.failure())
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
	if _, err := s.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "techpubs", CullingSize: -1, CullingAge: -1}); err != nil {
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
