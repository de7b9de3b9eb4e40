package rdm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

const ownURL = "http://cutie.cdlib.org/state/ingest/j00000000000"

func submission(typ string, objects ...soif.Object) string { return headed(typ, "", objects...) }

func object(typ, url string, pairs ...string) soif.Object {
	o := soif.Object{Type: typ, URL: url}
	for i := 0; i < len(pairs); i += 2 {
		o.Add(pairs[i], pairs[i+1])
	}
	return o
}

// Each object stands for itself: the answer says what became of each.
func TestSubmissionObjectByObject(t *testing.T) {
	s := newSite(t, rdm.Options{MaxObjects: 3})
	s.fill() // 1 consumed, 2 pending, 3 deleted
	doc := func(url string, pairs ...string) soif.Object { return object("DOCUMENT", url, pairs...) }
	for _, tt := range []struct {
		name, message string
		status        int
		facts         string // of the answer, behind Content-Type
		fail          string
		statuses      string // of the jobs afterwards
	}{
		{"requeue", submission("rd-response", doc(ownURL+"1", "Status", "Pending"), doc(ownURL+"3", "Status", "pending")), 200,
			"Accepted=2 Rejected=0 RD-URL-1=1 RD-URL-2=3", "", "pending pending pending"},
		{"nothing changes", submission("rd-response", doc(ownURL+"2", "Title", "b.bin")), 200, "Accepted=1 Rejected=0 RD-URL-1=2", "", "pending pending pending"},
		{"a pending job is described anew", submission("rd-response", doc(ownURL+"2", "Title", "/x/other", "Sidecar", "new\nlines", "Status", "PENDING"), doc(ownURL+"2", "Title", "b.bin")), 200,
			"Accepted=2 Rejected=0 RD-URL-1=2 RD-URL-2=2", "", "pending pending pending"},
		{"what no sidecar can be", submission("rd-response", doc(ownURL+"2", "Sidecar", "\x00")), 400,
			"Accepted=0 Rejected=1 Error-1=j000000000002: sidecar is not text: control character 0x00 at octet 0", "j000000000002: sidecar is not text: control character 0x00 at octet 0", "pending pending pending"},
		{"all rejected", submission("rd-response", doc(ownURL+"9", "Status", "pending")), 404, "Accepted=0 Rejected=1 Error-1=job not found", "job not found", "pending pending pending"},
		{"other statuses", submission("rd-response", doc(ownURL+"2", "Status", "consumed")), 409,
			"Accepted=0 Rejected=1 Error-1=status is pending, only pending can be asked for: job not in a state for that", "status is pending, only pending can be asked for: job not in a state for that", "pending pending pending"},
		{"another catalog", submission("rd-response", doc("http://cutie.cdlib.org/state/access/j000000000001")), 400,
			"Accepted=0 Rejected=1 Error-1=job j000000000001 is of another catalog", "job j000000000001 is of another catalog", "pending pending pending"},
		{"delete", submission("RD-Response-Deleted", doc(ownURL+"1"), doc("http://a/"), doc(ownURL+"1")), 200,
			`Accepted=2 Rejected=1 RD-URL-1=1 Error-2=URL "http://a/" is not that of a description here RD-URL-3=1`, "", "deleted pending pending"},
		{"a deleted job stays what it is", submission("rd-response", doc(ownURL+"1", "Title", "other", "Status", "pending"), doc(ownURL+"1", "Title", "a.bin")), 200,
			"Accepted=1 Rejected=1 Error-1=Title of a job that is deleted stays as it is: job not in a state for that RD-URL-2=1", "", "deleted pending pending"},
		{"wrong digest", submission("rd-response", doc("", "Payload", "x", "Digest-Type", "MD5", "Digest-Value", strings.Repeat("0", 32))), 400,
			"Accepted=0 Rejected=1 Error-1=digest verification failed: expected md5:00000000000000000000000000000000, got md5:9dd4e461268c8034f5c8564e155c67a6",
			"digest verification failed: expected md5:00000000000000000000000000000000, got md5:9dd4e461268c8034f5c8564e155c67a6", "deleted pending pending"},
		{"half a digest", submission("rd-response", doc("", "Payload", "x", "Digest-Type", "MD5")), 400,
			"Accepted=0 Rejected=1 Error-1=there are 1 of Digest-Type and 0 of Digest-Value", "there are 1 of Digest-Type and 0 of Digest-Value", "deleted pending pending"},
		{"no description", submission("rd-response", object("RDMQUERY", "")), 400,
			`Accepted=0 Rejected=1 Error-1="RDMQUERY" is not the description of a resource`, `"RDMQUERY" is not the description of a resource`, "deleted pending pending"},
		{"too many", submission("rd-response", doc(ownURL+"2"), doc(ownURL+"2"), doc(ownURL+"2"), doc(ownURL+"2")), 413,
			"Accepted=3 Rejected=0 RD-URL-1=2 RD-URL-2=2 RD-URL-3=2", "more than 3 objects, what follows was not read", "deleted pending pending"},
		{"a mistake ends it", submission("rd-response", doc("", "Payload", "x")) + "@DOCUMENT { -\nTitle{1}\ty\n}\n", 400,
			"Accepted=1 Rejected=0 RD-URL-1=4", `line 9: attribute "Title": : is wanted behind the size, there is "\ty\n}\n"`, "deleted pending pending pending"},
		{"a deletion behind a header", submission("rd-response") + submission("rd-response-deleted", doc("http://a/")), 400,
			"Accepted=0 Rejected=0", "@RDMHEADER begins a message of its own and is no description; it and the objects after it were not taken", "deleted pending pending pending"},
		{"schema", submission("rd-response", object("SCHEMA", "", "Schema-Definition-Language-Version", "1.0", "SOIF-Attribute-1", "Title"), doc(ownURL+"2")), 200,
			"Accepted=1 Rejected=0 RD-URL-1=2", "", "deleted pending pending pending"},
	} {
		a := s.post(tt.message)
		var facts []string
		if len(a.objects) == 2 {
			for _, f := range a.objects[1].Attributes[1 : len(a.objects[1].Attributes)-1] {
				facts = append(facts, f.Name+"="+strings.TrimPrefix(f.Value, ownURL))
			}
		}
		var statuses []string
		for _, id := range s.q.IDs(queuefs.ListOptions{}) {
			st, _ := s.q.Status(id)
			statuses = append(statuses, st.String())
		}
		if got := strings.Join(facts, " "); a.StatusCode != tt.status || got != tt.facts || a.failure() != tt.fail || strings.Join(statuses, " ") != tt.statuses {
			t.Errorf("%s: got %d %s, %q, %v", tt.name, a.StatusCode, got, a.failure(), statuses)
		}
	}
	if len(s.logged) > 0 {
		t.Errorf("logged %v", s.logged)
	}
}

// Objects beyond the limits of their user are rejected, the others are taken.
func TestSubmittersKeepWithinTheirLimits(t *testing.T) {
	s := newSite(t, rdm.Options{User: func(context.Context) string { return "ann" }})
	if _, err := s.svc.SetQueue(ctx, "ingest", func(i *queuefs.QueueInfo) error { i.Limits = queuefs.Limits{Active: 2, Upload: 10}; return nil }); err != nil {
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

// A job that somebody works on is not taken away.
func TestJobsInWorkAreNotRequeued(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.submit(queuefs.Meta{}, "x")
	taken, err := s.q.Take(ctx, queuefs.Take{By: "w", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	message := submission("rd-response", object("DOCUMENT", ownURL+"1", "Status", "pending"))
	if a := s.post(message); a.StatusCode != 409 || !strings.Contains(a.failure(), "a consumer works on j000000000001") {
		t.Errorf("got %d %s", a.StatusCode, a.failure())
	}
	if _, err := s.q.Conclude(ctx, 1, taken[0].Token, queuefs.Conclusion{Outcome: queuefs.Completed}); err != nil {
		t.Fatal(err)
	}
	if a := s.post(message); a.StatusCode != 200 {
		t.Errorf("got %d %s", a.StatusCode, a.failure())
	}
}

// A caller needs for a message what the same needs with the Cutie methods.
func TestRights(t *testing.T) {
	var has string
	s := newSite(t, rdm.Options{Allow: func(header http.Header, _ *http.Request, right web.Right, queue string) error {
		if strings.Contains(" "+has+" ", " "+right.String()+":"+queue+" ") {
			return nil
		}
		header.Set("WWW-Authenticate", "Basic")
		return &web.Error{Status: 401, Message: "no " + right.String() + " for " + queue}
	}, User: func(context.Context) string { return "ann" }})
	s.fill()
	for _, tt := range []struct {
		has, message string
		status       int
		fail         string
	}{
		{"submit:ingest", submission("rd-request"), 401, "no read for ingest"},
		{"read:ingest", submission("rd-request"), 200, ""},
		{"read:ingest", submission("rd-response", object("DOCUMENT", "")), 401, "no submit for ingest"},
		{"submit:ingest", submission("rd-response", object("DOCUMENT", "")), 200, ""},
		{"submit:ingest", submission("rd-response", object("DOCUMENT", ownURL+"1", "Status", "pending")), 401, "no consume for ingest"},
		{"submit:ingest consume:ingest", submission("rd-response", object("DOCUMENT", ownURL+"1", "Status", "pending")), 200, ""},
		{"submit:ingest", submission("rd-response", object("DOCUMENT", ownURL+"2", "Title", "other")), 401, "no delete for ingest"},
		{"submit:ingest delete:ingest", submission("rd-response", object("DOCUMENT", ownURL+"2", "Title", "other")), 200, ""},
		{"submit:ingest", submission("rd-response-deleted", object("DOCUMENT", ownURL+"1")), 401, "no delete for ingest"},
		{"delete:ingest", submission("rd-response-deleted", object("DOCUMENT", ownURL+"1")), 200, ""},
		{"read:access", submission("schema-request"), 401, "no read for ingest"},
	} {
		has = tt.has
		a := s.post(tt.message)
		if a.StatusCode != tt.status || a.failure() != tt.fail || (a.StatusCode == 401) != (a.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %q: got %d %q", tt.has, tt.message, a.StatusCode, a.failure())
		}
	}
	if j, err := s.q.Job(4); err != nil || j.Owner != "ann" {
		t.Errorf("got owner %q, %v", j.Owner, err)
	}
	// Of what somebody may not read nothing is said, not even that it is not there.
	has = "read:access"
	for _, query := range []string{"?type=status-request", "?type=taxonomy-request", "?type=server-request&csid=x-catalog://cutie.cdlib.org/access"} {
		if a := s.get(query); a.StatusCode != 200 || strings.Contains(a.body, "ingest") || !strings.Contains(a.body, "access") {
			t.Errorf("%s: got %d %s", query, a.StatusCode, a.body)
		}
	}
	if a := s.get("?type=rd-request&csid=x-catalog://cutie.cdlib.org/nosuch"); a.StatusCode != 401 {
		t.Errorf("got %d %q", a.StatusCode, a.failure())
	}
}

func TestContentCodingsOfMessages(t *testing.T) {
	s := newSite(t, rdm.Options{MaxBody: 4000})
	for range 100 {
		s.submit(queuefs.Meta{Sidecar: strings.Repeat("a: b\n", 100)}, "x")
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

func TestOrderHasALimit(t *testing.T) {
	s := newSite(t, rdm.Options{MaxOrdered: 20})
	for i := range 21 {
		s.submit(queuefs.Meta{Filename: fmt.Sprintf("file %02d", i)}, "x")
	}
	if a := s.get("?type=rd-request&view-order=Size"); a.StatusCode != 400 || a.failure() != "more than 20 descriptions are not put in order; View-Hits asks for the first of them" {
		t.Errorf("got %d %q", a.StatusCode, a.failure())
	}
	a := s.get("?type=rd-request&view-order=-Size,-Title&view-hits=2..4&view-attributes=title")
	var titles []string
	for _, o := range a.objects[1:] {
		titles = append(titles, o.Value("Title"))
	}
	if got := fmt.Sprint(titles); got != "[file 19 file 18 file 17]" || a.objects[0].Value("RDM-Response-Interpret") != "3 DOCUMENT objects" {
		t.Errorf("got %s, %+v", got, a.objects[0])
	}
}

// A description that was submitted is updated and deleted by its URL, and sent with what
// was submitted.
func TestDescriptionsHaveTheirURLs(t *testing.T) {
	s := newSite(t, rdm.Options{})
	doc := func(url string, pairs ...string) soif.Object { return object("DOCUMENT", url, pairs...) }
	const a, b = "http://archive.example/1", "http://archive.example/2"
	send := func(typ string, objects ...soif.Object) string {
		t.Helper()
		got := s.post(submission(typ, objects...))
		text := got.failure()
		if len(got.objects) == 2 {
			for _, f := range got.objects[1].Attributes {
				if strings.HasPrefix(f.Name, "RD-URL") || strings.HasPrefix(f.Name, "Error") {
					text += " " + strings.TrimPrefix(f.Value, ownURL)
				}
			}
			page := got.objects[1].Value("Status-Message")
			for _, word := range []string{"submitted", "updated", "unchanged", "deleted"} {
				text += strings.Repeat(" "+word, strings.Count(page, "<LI>"+word))
			}
		}
		return strings.TrimSpace(text)
	}
	has := func(query string, want ...soif.Object) {
		t.Helper()
		got := s.get("?" + query).objects[1:]
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	want(send("rd-response", doc(a, "Title", "A", "Author-1", "Ann", "Author-2", "Bob"), doc(b, "Title", "B", "Payload", "text")), "1 2 submitted submitted")
	has("type=rd-request&view-attributes=URL,Title,Author,Size,Nothing", doc(a, "Title", "A", "Author-1", "Ann", "Author-2", "Bob", "Size", "85"), doc(b, "Title", "B", "Size", "4"))
	has("type=rd-request&view-attributes=title&view-order=Author", doc(b, "Title", "B"), doc(a, "Title", "A"))
	// Again, and changed, while the job is pending: a worker gets the last one alone.
	want(send("rd-response", doc(a, "Title", "A", "Author-1", "Ann", "Author-2", "Bob"), doc(b, "Title", "B", "Payload", "text")), "1 2 unchanged unchanged")
	want(send("rd-response", doc(a, "Title", "A2"), doc(b, "Title", "B2", "Payload", "text")), "3 4 updated updated")
	has("type=rd-request&view-attributes=Title", doc(a, "Title", "A2"), doc(b, "Title", "B2"))
	has("type=rd-request-deleted&view-attributes=Status")
	// A consumer has it: the description is replaced, and deleted, all the same.
	if j, err := s.q.Next(ctx, "worker"); err != nil || j.ID != 3 {
		t.Fatal(j.ID, err)
	}
	want(send("rd-response", doc(a, "Title", "A3")), "5 updated")
	has("type=rd-request&view-attributes=Title,Status", doc(b, "Title", "B2", "Status", "pending"), doc(a, "Title", "A3", "Status", "pending"))
	if j, err := s.q.Next(ctx, "worker"); err != nil || j.ID != 4 {
		t.Fatal(j.ID, err)
	}
	want(send("rd-response-deleted", doc(b), doc("http://archive.example/3")), `4 URL "http://archive.example/3" is not that of a description here deleted`)
	has("type=rd-request&view-attributes=Title", doc(a, "Title", "A3"))
	gone := s.get("?type=rd-request-deleted&view-attributes=Status").objects[1:]
	if len(gone) != 2 || gone[0].URL != b || gone[1].URL != b {
		t.Errorf("got %+v deleted, want both jobs of %s", gone, b)
	}
	// It is the same after a start.
	s.h = rdm.New(s.svc, rdm.Options{Now: s.clock.now})
	has("type=rd-request&view-attributes=Title", doc(a, "Title", "A3"))
	want(send("rd-response-deleted", doc(a)), "5 deleted")
	has("type=rd-request&view-attributes=Title")
	want(send("rd-response", doc(b, "Title", "B")), "6 submitted")
	has("type=rd-request&view-attributes=Title", doc(b, "Title", "B"))
	want(send("rd-response-deleted", doc("http://archive.example/3")), `URL "http://archive.example/3" is not that of a description here URL "http://archive.example/3" is not that of a description here`)
}

// Who made a description may change and delete it with the right to submit alone; others
// need the right to delete.
func TestWhoMayChangeADescription(t *testing.T) {
	user, mayDelete := "", false
	s := newSite(t, rdm.Options{Allow: func(_ http.Header, _ *http.Request, right web.Right, _ string) error {
		if right == web.Submit || right == web.Delete && mayDelete {
			return nil
		}
		return &web.Error{Status: 403, Message: "no " + right.String()}
	}, User: func(context.Context) string { return user }})
	for _, tt := range []struct {
		user      string
		mayDelete bool
		message   string
		status    int
	}{
		{"ann", false, submission("rd-response", object("DOCUMENT", "http://a/")), 200},
		{"bob", false, submission("rd-response", object("DOCUMENT", "http://a/", "Title", "x")), 403},
		{"bob", false, submission("rd-response-deleted", object("DOCUMENT", "http://a/")), 403},
		{"", false, submission("rd-response-deleted", object("DOCUMENT", "http://a/")), 403},
		{"ann", false, submission("rd-response", object("DOCUMENT", "http://a/", "Title", "x")), 200},
		{"ann", false, submission("rd-response-deleted", object("DOCUMENT", "http://a/")), 200},
		{"ann", false, submission("rd-response", object("DOCUMENT", "http://a/")), 200},
		{"bob", true, submission("rd-response-deleted", object("DOCUMENT", "http://a/")), 200},
		{"ann", false, submission("rd-response-deleted", object("DOCUMENT", "http://a/")), 404},
	} {
		user, mayDelete = tt.user, tt.mayDelete
		if a := s.post(tt.message); a.StatusCode != tt.status {
			t.Errorf("%s, %v: %q: got %d %q, want %d", tt.user, tt.mayDelete, tt.message, a.StatusCode, a.failure(), tt.status)
		}
	}
}

// A request that is given up while the catalog is read for the first time loses nothing.
func TestCatalogIsReadOn(t *testing.T) {
	s := newSite(t, rdm.Options{})
	if a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "one"))); a.StatusCode != 200 {
		t.Fatal(a.failure())
	}
	s.h = rdm.New(s.svc, rdm.Options{Now: s.clock.now})
	gone, cancel := context.WithCancel(ctx)
	cancel()
	s.do(httptest.NewRequest("GET", rdm.Path+"?type=rd-request", nil).WithContext(gone))
	a := s.post(submission("rd-response", object("DOCUMENT", "http://a/", "Title", "two")))
	if a = s.get("?type=rd-request&view-attributes=Title"); len(a.objects) != 2 || a.objects[1].Value("Title") != "two" {
		t.Errorf("got %+v, want the description once", a.objects)
	}
}

// A queue made anew under a name has none of the descriptions of the former one.
func TestNewQueueHasNoFormerDescriptions(t *testing.T) {
	s := newSite(t, rdm.Options{})
	const csid = "x-catalog://cutie.cdlib.org:80/access"
	one := headed("rd-response", csid, object("DOCUMENT", "http://a/"))
	if a := s.post(one); a.StatusCode != 200 {
		t.Fatal(a.failure())
	}
	if a := s.post(headed("rd-response-deleted", csid, object("DOCUMENT", "http://a/"))); a.StatusCode != 200 {
		t.Fatal(a.failure())
	}
	if _, err := s.svc.SetQueue(ctx, "access", func(i *queuefs.QueueInfo) error { i.CullingSize = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.svc.Cull(ctx, queuefs.CullOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.svc.RemoveQueue(ctx, "access"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "access", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	if a := s.post(headed("rd-response-deleted", csid, object("DOCUMENT", "http://a/"))); a.StatusCode != 404 {
		t.Errorf("got %d %q, want 404", a.StatusCode, a.failure())
	}
	if a := s.post(one); a.StatusCode != 200 || !strings.Contains(a.objects[1].Value("Status-Message"), "<LI>submitted ") {
		t.Errorf("got %d %+v", a.StatusCode, a.objects)
	}
}

// post sends a message with an account.
func (s *site) postWith(budget buffers.Budget, objects ...soif.Object) answer {
	s.t.Helper()
	var text []byte
	for i := range objects {
		text = objects[i].Append(text)
	}
	r := httptest.NewRequest("POST", rdm.Path, strings.NewReader(string(text)))
	r.Header.Set("Content-Type", rdm.MediaType)
	a := new(buffers.Account)
	a.Open(budget, netip.Addr{})
	defer a.Close()
	return s.do(r.WithContext(buffers.With(r.Context(), a)))
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

// Before the right is asked, no more than a header is read.
func TestHeaderOfAMessageIsShort(t *testing.T) {
	asked := 0
	s := newSite(t, rdm.Options{Allow: func(http.Header, *http.Request, web.Right, string) error {
		asked++
		return web.Errorf(http.StatusForbidden, "no right")
	}})
	p := &purse{1 << 30}
	large := strings.Repeat("x", 70<<10)
	head := object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response", "X", large)
	if a := s.postWith(p, head); a.StatusCode != http.StatusRequestEntityTooLarge || asked != 0 {
		t.Errorf("header: got status %d, want 413", a.StatusCode)
	}
	head = object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-request")
	if a := s.postWith(p, head, object("RDMQUERY", "", "X", large)); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("query: got status %d, want 413", a.StatusCode)
	}
	head = object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	if a := s.postWith(&purse{100 << 10}, head, object("DOCUMENT", "", "X", strings.Repeat("x", 8<<20))); a.StatusCode != http.StatusForbidden || asked != 1 {
		t.Errorf("object: got status %d, want 403 before it takes memory", a.StatusCode)
	}
}

func TestObjectsTakeMemoryOneAfterTheOther(t *testing.T) {
	s := newSite(t, rdm.Options{})
	head := object("RDMHEADER", "", "RDM-Version", "1.0", "RDM-Type", "rd-response")
	large := object("DOCUMENT", "", "Payload", strings.Repeat("x", 1<<20))
	p := &purse{3 << 20}
	if a := s.postWith(p, head, large, large, large, large); a.StatusCode != http.StatusOK {
		t.Errorf("got status %d, %s", a.StatusCode, a.body)
	}
	if p.left != 3<<20 {
		t.Errorf("%d bytes were given back", p.left)
	}
	if a := s.postWith(&purse{1 << 20}, head, large); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", a.StatusCode)
	}
}

// getWith asks with an account.
func (s *site) getWith(p *purse, query string) answer {
	r := httptest.NewRequest("GET", rdm.Path+query, nil)
	a := new(buffers.Account)
	a.Open(p, netip.Addr{})
	defer a.Close()
	return s.do(r.WithContext(buffers.With(r.Context(), a)))
}

func TestOrderTakesMemory(t *testing.T) {
	s := newSite(t, rdm.Options{})
	s.fill()
	for left, want := range map[int]int{100: 503, 1 << 20: 200} {
		if a := s.getWith(&purse{left}, "?type=rd-request&scope=all&view-order=-Size"); a.StatusCode != want {
			t.Errorf("got status %d, want %d", a.StatusCode, want)
		}
	}
}

// What is held back of an answer counts, and without memory the answer goes out as it comes.
func TestAnswerIsHeldBackWithinTheBudget(t *testing.T) {
	s := newSite(t, rdm.Options{})
	for range 4 {
		s.submit(queuefs.Meta{Sidecar: "a: " + strings.Repeat("long ", 1000)}, "x")
	}
	whole, streamed := s.getWith(&purse{1 << 20}, "?type=rd-request"), s.getWith(&purse{30 << 10}, "?type=rd-request")
	if whole.Header.Get("Content-Length") == "" || streamed.Header.Get("Content-Length") != "" {
		t.Errorf("got lengths %q and %q, want one and none", whole.Header.Get("Content-Length"), streamed.Header.Get("Content-Length"))
	}
	if whole.StatusCode != 200 || streamed.StatusCode != 200 || whole.body != streamed.body || len(whole.body) < 4<<10 {
		t.Errorf("got %d bytes with memory and %d without", len(whole.body), len(streamed.body))
	}
}
