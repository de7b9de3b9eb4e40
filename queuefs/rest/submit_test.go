package rest_test

import (
	"crypto/md5"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

const md5OfHello = "b1946ac92492d2347c6235b4d2611184" // of "hello\n"

func TestSubmitBareBody(t *testing.T) {
	s := newSite(t, rest.Options{})
	a := s.do("POST", "/content/jobs", "hello\n", "Content-Type", "text/plain; charset=utf-8",
		"Content-Disposition", `attachment; filename="dir/h \"i\".txt"`, "Cutie-Sidecar", "a=b;%20c=d%0Aline",
		"User-Agent", "mrt-ingest/0.6", "Accept", "text/x-anvl").want(t, 201)
	a.header(t, "Location", s.url+"/state/jobs/j000000000001")
	a.header(t, "Content-Type", "text/x-anvl")
	a.header(t, "Vary", "Accept")
	got := s.only()
	want := queuefs.Job{ID: 1, Queue: "jobs", Status: queuefs.Pending, Seq: 1, Filename: `h "i".txt`,
		MediaType: "text/plain; charset=utf-8", Submitter: "mrt-ingest/0.6", Sidecar: "a=b; c=d\nline", Size: 6,
		Digests:   []digest.Value{digest.Sum(digest.SHA256, []byte("hello\n"))},
		Submitted: got.Submitted}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("job: got %+v, want %+v", got, want)
	}
	if got := s.payload(1); got != "hello\n" {
		t.Errorf("payload: got %q", got)
	}
	d, err := state.ANVL.Decode(state.JobClass, []byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if j, err := d.Job(); err != nil || fmt.Sprint(j) != fmt.Sprint(want) {
		t.Errorf("answer: got %+v, %v, want %+v", j, err, want)
	}
}

func TestSubmitSaysItInTheQuery(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.do("POST", "/content/jobs?filename=a%20b&sidecar=x%0Ay&digest-type=md5&digest-value="+md5OfHello+"&type=job&t=json&v", "hello\n",
		"Content-Disposition", `attachment; filename="other"`).want(t, 201).header(t, "Content-Type", "application/json")
	if j := s.only(); j.Filename != "a b" || j.Sidecar != "x\ny" || j.MediaType != "" {
		t.Errorf("got %+v", j)
	}
}

func TestSubmitStoresAnyBareBodyAsItIs(t *testing.T) {
	s := newSite(t, rest.Options{})
	form := newForm().file("a", "b").end()
	for i, tt := range []struct{ media, body string }{
		{"", "x"},
		{"application/octet-stream", ""},
		{"application/x-www-form-urlencoded", "file=a&type=batch-manifest"},
		{"multipart/mixed; boundary=b0undary", form},
		{"text/csv", "#%checkm_0.7\n"},
		{"application/octet-stream", strings.Repeat("\x00\xff\r\n", 1<<16)}, // above what the journal takes
	} {
		s.do("POST", "/content/jobs", tt.body, "Content-Type", tt.media).want(t, 201)
		if got := s.payload(queuefs.JobID(i + 1)); got != tt.body {
			t.Errorf("%s: got %d octets, want %d", tt.media, len(got), len(tt.body))
		}
	}
}

// A request without a body has no file (Cutie 5.5). An empty file has a name or a type.
func TestSubmitWithoutABody(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, header := range [][]string{nil, {"Content-Type", "application/x-www-form-urlencoded"}, {"Content-Disposition", "attachment"}} {
		if got := s.do("POST", "/content/jobs", "", header...).want(t, 400).exception(t); !strings.Contains(got, "no file") {
			t.Errorf("%v: got %q", header, got)
		}
	}
	s.do("POST", "/content/jobs?type=batch-manifest", "").want(t, 400)
	s.wantCounts(0, 0, 0)
	for _, header := range [][]string{{"Content-Type", "text/plain"}, {"Content-Disposition", `attachment; filename="empty"`}} {
		s.do("POST", "/content/jobs", "", header...).want(t, 201)
	}
	s.do("POST", "/content/jobs?filename=empty", "").want(t, 201)
	s.wantCounts(3, 0, 0)
}

// Every digest is accepted when right, and nothing is stored when it is wrong.
func TestSubmitVerifiesDigests(t *testing.T) {
	s := newSite(t, rest.Options{})
	b64 := base64.StdEncoding.EncodeToString
	right, wrong := "hello\n", "jello\n"
	good := func(t digest.Type) string { return digest.Sum(t, []byte(right)).Hex }
	md := md5.Sum([]byte(right))
	long := sha512.Sum512([]byte(right))
	type way struct{ query, header, value string }
	ways := []way{
		{"", "Content-MD5", b64(md[:])},
		{"", "Content-Digest", "md5=:" + b64(md[:]) + ":"},
		{"", "Repr-Digest", "unknown=:AAAA:, sha-512=:" + b64(long[:]) + ":;q=1"},
		{"?digestType=CDC-32&digestValue=" + strings.ToUpper(good(digest.CRC32)), "", ""},
	}
	for _, typ := range digest.Types() {
		ways = append(ways, way{"?digest-type=" + typ.String() + "&digest-value=" + good(typ), "", ""})
	}
	n := int64(0)
	for _, w := range ways {
		path := "/content/jobs" + w.query
		var header []string
		if w.header != "" {
			header = []string{w.header, w.value}
		}
		a := s.do("POST", path, wrong, header...).want(t, 400)
		if got := a.exception(t); !strings.Contains(got, "digest verification failed") {
			t.Errorf("%+v: got %q", w, got)
		}
		s.wantCounts(n, 0, 0)
		s.do("POST", path, right, header...).want(t, 201)
		n++
		s.wantCounts(n, 0, 0)

		// The same as parts of a form, the digest before or behind the file.
		typ, value := "", ""
		if w.query != "" {
			_, rest, _ := strings.Cut(w.query, "=")
			typ, rest, _ = strings.Cut(rest, "&")
			_, value, _ = strings.Cut(rest, "=")
		}
		build := func(text string, first bool) string {
			f := newForm()
			if typ != "" && first {
				f.field("digest-type", typ).field("digest-value", value)
			}
			if typ == "" {
				f.file("x", text, w.header+": "+w.value)
			} else {
				f.file("x", text)
			}
			if typ != "" && !first {
				f.field("digestValue", value).field("digestType", typ)
			}
			return f.end()
		}
		for _, first := range []bool{true, false} {
			s.postForm(build(wrong, first)).want(t, 400)
			s.postForm(build(right, first)).want(t, 201)
			n++
			s.wantCounts(n, 0, 0)
		}
	}
}

func TestSubmitRefuses(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 1 << 20, MaxSidecar: 100, MaxParts: 3})
	long := strings.Repeat("x", 101)
	f := newForm
	formTests := []struct {
		name   string
		form   string
		status int
		want   string
	}{
		{"no file", f().field("sidecar", "x").end(), 400, "no part named file"},
		{"sidecar twice", f().file("a", "b").field("sidecar", "x").field("sidecare", "y").end(), 400, "sidecar is repeated"},
		{"sidecar twice, once on the part", f().file("a", "b", "Cutie-Sidecar: x").field("sidecar", "y").end(), 400, "sidecar is repeated"},
		{"type twice", f().field("type", "job").file("a", "b").field("type", "job").end(), 400, "type is repeated"},
		{"digest type twice", f().file("a", "b").field("digest-type", "md5").field("digestType", "md5").end(), 400, "digest-type is repeated"},
		{"digest value twice", f().file("a", "b").field("digest-value", "1").field("digest-value", "1").end(), 400, "digest-value is repeated"},
		{"digest type alone", f().file("a", "b").field("digest-type", "md5").end(), 400, "without digest-value"},
		{"digest value alone", f().file("a", "b").field("digest-value", md5OfHello).end(), 400, "without digest-type"},
		{"unknown digest type", f().file("a", "b").field("digest-type", "md9").field("digest-value", "1").end(), 400, "unknown digest type"},
		{"digest too short", f().file("a", "b").field("digest-type", "md5").field("digest-value", "12").end(), 400, "32 hexadecimal digits"},
		{"long sidecar", f().file("a", "b").field("sidecar", long).end(), 413, "more than 100 octets"},
		{"long sidecar on the part", f().file("a", "b", "Cutie-Sidecar: "+long).end(), 413, "more than 100 octets"},
		{"long type", f().file("a", "b").field("type", strings.Repeat("x", 2000)).end(), 413, "more than 1024"},
		{"sidecar of several files", f().file("a", "b").file("c", "d").field("sidecar", "x").end(), 400, "single file"},
		{"digest of several files", f().file("a", "b").file("c", "d").field("digest-type", "md5").end(), 400, "single file"},
		{"unknown type", f().field("type", "job2").file("a", "b").end(), 415, "is neither job nor batch-manifest"},
		{"batch manifest", f().field("type", "batch-manifest").file("a", "b").end(), 400, "is not a whole URL"},
		{"batch", f().file("a", "b").field("type", "Batch").end(), 400, "is not a whole URL"},
		{"manifest by its media type", f().file("a", "b", "Content-Type: text/checkm").end(), 400, "is not a whole URL"},
		{"part with many headers", f().file("a", "b", strings.Repeat("X: y\r\n", 10_000)+"X: y").end(), 413, "the header of a part has more than 10000 lines"},
		{"unknown part", f().file("a", "b").field("digest-vaule", "x").end(), 400, "is none of"},
		{"part without a name", f().add("x", "Content-Type: text/plain").end(), 400, "is none of"},
		{"filename as a part", f().file("a", "b").field("filename", "x").end(), 400, "given with the file"},
		{"too many files", f().file("a", "1").file("a", "2").file("a", "3").file("a", "4").end(), 413, "more than 3 files"},
		{"too many nested files", f().file("a", "1").add(nested("1", "2", "3"), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").end(), 413, "more than 3 files"},
		{"nested without boundary", f().add(nested("1"), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed").end(), 400, "no boundary"},
		{"nested form cut off", f().add("--inner\r\nContent-Disposition: file\r\n\r\nx", `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").end(), 400, "ends before"},
		{"base64", f().file("a", "YQ==", "Content-Transfer-Encoding: base64").end(), 400, "Content-Transfer-Encoding"},
		{"media type of a file", f().file("a", "b", "Content-Type: nonsense").end(), 400, "not a media type"},
		{"digest header of a file", f().file("a", "b", "Content-MD5: nonsense").end(), 400, "Content-MD5"},
		{"no last boundary", f().file("a", "b").String(), 400, "ends before its last boundary"},
		{"cut in a part", f().file("a", "b").String()[:60], 400, "ends before its last boundary"},
		{"cut in a header behind a whole file", f().file("a", "b").String() + "--b0undary\r\nContent-Disposition: form-data\r\n", 400, "ends before its last boundary"},
		{"nothing at all", "", 400, "ends before its last boundary"},
		{"no form", "hello", 400, "ends before its last boundary"},
		{"malformed header", "--b0undary\r\nno colon\r\n\r\nx\r\n--b0undary--\r\n", 400, "malformed MIME header"},
		{"long epilogue", f().file("a", "b").end() + strings.Repeat("x", 80<<10), 400, "behind the last boundary"},
	}
	for _, tt := range formTests {
		a := s.postForm(tt.form)
		if got := a.exception(t); a.StatusCode != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %d %q, want %d %q", tt.name, a.StatusCode, got, tt.status, tt.want)
		}
		s.wantCounts(0, 0, 0)
	}
	ok := f().file("a", "b").end()
	tests := []struct {
		path, body, name, value string
		status                  int
		want                    string
	}{
		{"", ok, "Content-Type", "multipart/form-data", 400, "no boundary"},
		{"", ok, "Content-Type", "multipart/form-data; boundary=", 400, "Content-Type"},
		{"", ok, "Content-Type", "multipart/form-data; boundary=" + long, 400, "no boundary"},
		{"", ok, "Content-Type", "multipart/form-data; boundary", 400, "Content-Type"},
		{"?filename=x", ok, "Content-Type", "multipart/form-data; boundary=b0undary", 400, "given with the file"},
		{"?type=batch-manifest", "x", "", "", 400, "is not a whole URL"},
		{"?type=bogus", "x", "", "", 415, "is neither job nor batch-manifest"},
		{"?type=", "x", "", "", 415, "is neither job nor batch-manifest"},
		{"?digest-type=md5", "x", "", "", 400, "without digest-value"},
		{"?sidecar=" + long, "x", "", "", 413, "more than 100 octets"},
		{"?sidecar=a&sidecar=b", "x", "", "", 400, "repeated"},
		{"?sidecar=a&sidecare=b", "x", "", "", 400, "not known here"},
		{"?digest-vaule=a", "x", "", "", 400, "not known here"},
		{"?sidecar=%zz", "x", "", "", 400, "query"},
		{"", "x", "Cutie-Sidecar", "%zz", 400, "Cutie-Sidecar"},
		{"", "x", "Cutie-Sidecar", long, 413, "more than 100 octets"},
		{"", "x", "Content-Type", "nonsense", 400, "not a media type"},
		{"", "x", "Content-Disposition", ";", 400, "Content-Disposition"},
		{"", "x", "Content-Encoding", "gzip", 415, "content coding"},
		{"", "x", "Content-Digest", "nonsense", 400, "Content-Digest"},
		{"", "x", "Content-Digest", "md5=:AA==:", 400, "Content-Digest"},
		{"", "x", "Content-Digest", "md5=:A:", 400, "Content-Digest"},
		{"", "x", "Accept", "image/png", 415, "response form"},
		{"?t=bogus", "x", "", "", 415, "response form"},
		{"?t=json&t=anvl", "x", "", "", 400, "repeated"},
		{"", strings.Repeat("x", 1<<20+1), "", "", 413, "1048577 octets"},
		{"", strings.Repeat("x", 1<<20+1), "Transfer-Encoding", "chunked", 413, "more than 1048576 octets"},
	}
	for _, tt := range tests {
		req := s.request("POST", "/content/jobs"+tt.path, strings.NewReader(tt.body))
		if tt.name == "Transfer-Encoding" {
			req.ContentLength = -1
		} else if tt.name != "" {
			req.Header.Set(tt.name, tt.value)
		}
		a := s.send(req)
		if got := a.exception(t); a.StatusCode != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s %.40s: got %d %q, want %d %q", tt.path, tt.name, tt.value, a.StatusCode, got, tt.status, tt.want)
		}
		s.wantCounts(0, 0, 0)
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

// nested returns a multipart/mixed body of files.
func nested(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "--inner\r\nContent-Disposition: file; filename=\"n%s\"\r\n\r\n%s\r\n", f, f)
	}
	return b.String() + "--inner--\r\n"
}

func TestSubmitFormWithPartsInAnyOrder(t *testing.T) {
	s := newSite(t, rest.Options{})
	a := s.postForm(newForm().
		field("digest-type", "MD5").
		field("sidecar", "x=y\nz").
		add("hello\n", `content-disposition: form-data; name="file"; filename="naïve \"file\".bin"`, "content-type: text/plain").
		field("type", "job").
		field("digest-value", md5OfHello).end()+"epilogue",
		"User-Agent", "form/1", "Accept", "text/x-anvl").want(t, 201)
	a.header(t, "Location", s.url+"/state/jobs/j000000000001")
	j := s.only()
	if j.Sidecar != "x=y\nz" || j.Filename != `naïve "file".bin` || j.MediaType != "text/plain" || j.Submitter != "form/1" {
		t.Errorf("got %+v", j)
	}
}

func TestSubmitSeveralFiles(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("before", queuefs.Meta{})
	big := strings.Repeat("big ", 100_000)
	a := s.postForm(newForm().
		file("a", "one", "Cutie-Sidecar: for%20one").
		field("type", "JOB").
		add(nested("x", "y"), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").
		file("m", "manifest?", "Content-Type: text/x-checkm").
		file("b", big).end()).want(t, 201)
	a.header(t, "Location", s.url+"/state/jobs")
	d, err := statetest.Read(state.XHTML, state.QueueClass, []byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.Queue()
	if got, want := fmt.Sprint(q.Submitted), "[j000000000002 j000000000003 j000000000004 j000000000005 j000000000006]"; got != want || err != nil {
		t.Errorf("submitted: got %s, %v, want %s", got, err, want)
	}
	if q.Pending != 6 || q.Jobs.Limit != 5 || q.Jobs.More || !slices.Equal(q.Jobs.IDs, q.Submitted) {
		t.Errorf("answer: got %+v", q)
	}
	jobs, err := s.q.List(queuefs.ListOptions{After: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, j := range jobs {
		got += fmt.Sprintf("%s %q %.10s;", j.Filename, j.Sidecar, s.payload(j.ID))
	}
	if want := `a "for one" one;nx "" x;ny "" y;m "" manifest?;b "" big big bi;`; got != want {
		t.Errorf("jobs: got %s, want %s", got, want)
	}
}

func TestSubmitSeveralFilesAllOrNothing(t *testing.T) {
	s := newSite(t, rest.Options{})
	a := s.postForm(newForm().file("a", "one").file("b", strings.Repeat("x", 300_000)).
		file("c", "jello\n", "Content-MD5: sZRqySSS0nxiNbTSYR8Mcg==").file("d", "two").end()).want(t, 400)
	if got := a.exception(t); !strings.Contains(got, "digest verification failed") {
		t.Errorf("got %q", got)
	}
	s.wantCounts(0, 0, 0)
	form := newForm().file("a", "one").file("b", "two").end()
	sum := digest.Sum(digest.MD5, []byte(form+"x"))
	s.postForm(form, "Content-Digest", "md5=:"+base64.StdEncoding.EncodeToString(unhex(t, sum.Hex))+":").want(t, 400)
	s.wantCounts(0, 0, 0)
	s.postForm(form+"x", "Content-Digest", "md5=:"+base64.StdEncoding.EncodeToString(unhex(t, sum.Hex))+":").want(t, 201)
	s.wantCounts(2, 0, 0)
}

func TestSubmitTenThousandFiles(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	f := newForm()
	for i := range 10_000 {
		f.file("f", fmt.Sprint(i))
	}
	a := s.postForm(f.end(), "Accept", "text/x-anvl").want(t, 201)
	if got := strings.Count(a.body, "submittedJobState: "); got != 10_000 {
		t.Errorf("answer names %d jobs", got)
	}
	s.wantCounts(10_000, 0, 0)
	if got := s.payload(10_000); got != "9999" {
		t.Errorf("last payload: got %q", got)
	}
	s.postForm(f.file("one", "more").end()).want(t, 413)
	s.wantCounts(10_000, 0, 0)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
