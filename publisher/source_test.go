package publisher_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/publisher"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/sitemap"
	"cutie/testdata/tmpfs"
)

const base = "http://source.test/cutie"

// A source is a home with its publisher, and the handler of a site that has
// both the documents and the files of the queues.
type source struct {
	testing.TB
	dir      string
	opts     publisher.Options
	now      func() time.Time
	svc      *queuefs.Service
	pub      *publisher.Publisher
	problems []string
	keepLog  int64
	dirs     []string // to be removed
}

func newSource(t testing.TB, o publisher.Options, queues ...string) *source {
	t.Helper()
	s := &source{TB: t, opts: o, now: time.Now}
	if o.Now != nil {
		s.now = o.Now
	}
	if s.opts.BaseURI == "" {
		s.opts.BaseURI = base
	}
	s.dir = s.newDir()
	t.Cleanup(func() {
		s.close()
		for _, dir := range s.dirs {
			must(t, os.RemoveAll(dir))
		}
	})
	must(t, home.Init(s.dir, home.ServiceInfo{Name: "test"}))
	s.open()
	for _, id := range queues {
		s.queue(id)
	}
	return s
}

// newDir returns a directory for a home, in memory if there is a place: what
// is tested here does not hang on a disk, and takes its time there.
func (s *source) newDir() string {
	s.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "cutie-publisher-")
	if err != nil {
		return s.TempDir()
	}
	s.dirs = append(s.dirs, dir)
	return dir
}

func (s *source) open() {
	s.Helper()
	svc, err := queuefs.Open(s.dir, queuefs.Options{Now: s.now, Segment: 2 << 20, KeepLog: s.keepLog})
	must(s, err)
	s.svc = svc
	s.openPublisher()
}

func (s *source) openPublisher() {
	s.Helper()
	s.opts.Report = func(p durable.Finding) { s.problems = append(s.problems, p.String()) }
	s.opts.Page = dashboard.About
	pub, err := publisher.New(s.svc, s.opts)
	must(s, err)
	s.pub = pub
	s.svc.Follow(pub)
}

func (s *source) close() {
	if s.svc != nil {
		must(s, s.svc.Close())
		must(s, s.pub.Close())
		s.svc = nil
	}
}

func (s *source) reopen() {
	s.Helper()
	s.close()
	s.open()
}

// crash goes on with a copy of the home as a killed process would leave it,
// without some of its files.
func (s *source) crash(without ...string) {
	s.Helper()
	dir := s.killed(s.newDir)
	for _, name := range without {
		must(s, os.RemoveAll(filepath.Join(dir, name)))
	}
	s.svc.Close() // whether it can is of no interest
	s.pub.Close()
	s.dir = dir
	s.open()
}

// killed returns a copy of the home as a killed process would leave it.
func (s *source) killed(newDir func() string) (dir string) {
	s.Helper()
	dir = newDir()
	err := os.CopyFS(dir, os.DirFS(s.dir))
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		// What the journal prepares got its name, or was removed, meanwhile.
		dir = newDir()
		err = os.CopyFS(dir, os.DirFS(s.dir))
	}
	must(s, err)
	infos, err := filepath.Glob(filepath.Join(s.dir, "queues", "*", "queue-info.txt"))
	must(s, err)
	for _, name := range infos { // their times are published
		st, err := os.Stat(name)
		must(s, err)
		must(s, os.Chtimes(filepath.Join(dir, strings.TrimPrefix(name, s.dir)), st.ModTime(), st.ModTime()))
	}
	return dir
}

// fork returns a source that goes on with a copy of the home, after change.
func (s *source) fork(change func(*source)) *source {
	s.Helper()
	c := &source{TB: s.TB, opts: s.opts, now: s.now, keepLog: s.keepLog}
	c.dir = s.killed(c.newDir)
	s.Cleanup(func() {
		c.close()
		for _, dir := range c.dirs {
			must(c, os.RemoveAll(dir))
		}
	})
	change(c)
	c.open()
	return c
}

func (s *source) queue(id string) *queuefs.Queue {
	s.Helper()
	q, err := s.svc.Queue(id)
	if err != nil {
		q, err = s.svc.CreateQueue(context.Background(), home.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1})
	}
	must(s, err)
	return q
}

func (s *source) submit(q *queuefs.Queue, payloads ...string) []job.Job {
	s.Helper()
	sub := q.Begin()
	for i, p := range payloads {
		d, err := sub.Add(job.Meta{MediaType: []string{"text/plain", "application/json", ""}[i%3]})
		must(s, err)
		_, err = io.WriteString(d, p)
		must(s, err)
	}
	jobs, err := sub.Commit(context.Background())
	must(s, err)
	return jobs
}

// submitN submits n jobs with payloads of their own.
func (s *source) submitN(q *queuefs.Queue, n int) []job.Job {
	s.Helper()
	var jobs []job.Job
	for n > 0 {
		batch := make([]string, min(n, 200))
		for i := range batch {
			batch[i] = fmt.Sprintf("payload %d after %d", i, q.Seq())
		}
		jobs = append(jobs, s.submit(q, batch...)...)
		n -= len(batch)
	}
	return jobs
}

func (s *source) consume(q *queuefs.Queue, n int) []job.Job {
	s.Helper()
	var jobs []job.Job
	for n > 0 {
		got, err := q.NextN(context.Background(), "worker", min(n, 1000))
		must(s, err)
		jobs = append(jobs, got...)
		n -= len(got)
	}
	return jobs
}

func (s *source) requeue(q *queuefs.Queue, id job.ID) {
	s.Helper()
	_, err := q.Requeue(context.Background(), id)
	must(s, err)
}

func (s *source) remove(q *queuefs.Queue, id job.ID) {
	s.Helper()
	_, err := q.Delete(context.Background(), id)
	must(s, err)
}

// settle ticks until there is nothing left to make.
func (s *source) settle() {
	s.Helper()
	for n := 0; n < 50; {
		begin := time.Now()
		must(s, s.pub.Tick(context.Background()))
		if time.Since(begin) < 50*time.Millisecond {
			n++ // it did not end because its time was over
		}
	}
}

// ServeHTTP serves documents and files as the program would.
func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/.well-known/") || r.URL.Path == "/publish/export" {
		s.pub.ServeHTTP(w, r)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) < 4 || parts[1] != "queues" {
		http.NotFound(w, r)
		return
	}
	q := s.queue(parts[2])
	if parts[3] == "queue-info.txt" {
		data, _ := q.InfoFile()
		w.Write(data)
		return
	}
	id, err := job.ParseID(parts[4])
	must(s, err)
	if parts[3] == "payload" {
		p, err := q.Payload(id)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer p.Close()
		io.Copy(w, p)
		return
	}
	if parts[3] == "result" {
		_, in, err := q.Result(id, parts[5])
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer in.Close()
		io.Copy(w, in)
		return
	}
	st, err := job.ParseStatus(parts[3])
	must(s, err)
	text, _, err := q.JobFile(id, st)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Write(text)
}

// get asks for a URL of the site; header is pairs of names and values.
func (s *source) get(url string, header ...string) *http.Response {
	return s.do(http.MethodGet, url, header...)
}

func (s *source) do(method, url string, header ...string) *http.Response {
	s.Helper()
	path, ok := strings.CutPrefix(url, strings.TrimSuffix(s.opts.BaseURI, "/"))
	if !ok {
		s.Fatalf("%s is not below %s", url, s.opts.BaseURI)
	}
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// body returns the octets of a document, which must be there.
func (s *source) body(url string) []byte {
	s.Helper()
	resp := s.get(url)
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s", url, resp.Status)
	}
	return read(s, resp)
}

// doc returns the URL of a document.
func (s *source) doc(q *queuefs.Queue, set, name string) string {
	return strings.TrimSuffix(s.pub.CapabilityList(q.ID(), map[string]names.Set{"pending": names.Pending, "replica": names.Replica}[set]), "capabilitylist.xml") + name
}

// A document is one that was read and found right.
type document struct {
	root    sitemap.Root
	head    sitemap.Head
	entries []sitemap.Entry
	octets  []byte
}

// document reads a document and checks what must hold for any.
func (s *source) document(url string) document {
	s.Helper()
	d := parse(s, s.body(url))
	s.checkGzip(url)
	return d
}

func parse(t testing.TB, octets []byte) document {
	t.Helper()
	d := document{octets: octets}
	r := sitemap.NewReader(bytes.NewReader(octets))
	var err error
	d.root, d.head, err = r.ReadHead()
	must(t, err)
	var last time.Time
	for {
		e, err := r.Read()
		if err == io.EOF {
			return d
		}
		must(t, err)
		if !e.DateTime.IsZero() {
			if e.DateTime.Before(last) || e.DateTime.Before(d.head.From) || !d.head.Until.IsZero() && e.DateTime.After(d.head.Until) {
				t.Fatalf("%s: datetime %v after %v, from %v, until %v", e.Loc, e.DateTime, last, d.head.From, d.head.Until)
			}
			last = e.DateTime
		}
		d.entries = append(d.entries, e)
	}
}

func read(t testing.TB, resp *http.Response) []byte {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	return data
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A validator checks documents with the schemas of Z39.99.
type validator struct {
	testing.TB
	xsd   string
	older bool // versions before 1.1
	files map[sitemap.Root][]string
}

func newValidator(t testing.TB) *validator {
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("xmllint is not installed")
	}
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../shared"
	}
	xsd, err := filepath.Abs(filepath.Join(shared, "xsd"))
	must(t, err)
	if _, err := os.Stat(filepath.Join(xsd, "joint-sitemap.xsd")); err != nil {
		t.Skip("the schemas are not in ../shared/xsd, nor below $CUTIE_SHARED")
	}
	return &validator{TB: t, xsd: xsd, files: map[sitemap.Root][]string{}}
}

// add takes a document; check looks at all of them at once. The schemas want
// an entry where version 1.1 does not: empty documents are passed over.
func (v *validator) add(d document) {
	if len(d.entries) == 0 {
		return
	}
	name := filepath.Join(v.TempDir(), fmt.Sprintf("%s-%d.xml", d.head.Capability, len(v.files[d.root])))
	must(v, os.WriteFile(name, d.octets, 0o600))
	v.files[d.root] = append(v.files[d.root], name)
}

func (v *validator) check() {
	v.Helper()
	for root, schema := range map[sitemap.Root]string{sitemap.URLSet: "joint-sitemap.xsd", sitemap.SitemapIndex: "joint-siteindex.xsd"} {
		if len(v.files[root]) == 0 {
			v.Errorf("no %s to validate", root)
			continue
		}
		if v.older {
			schema = strings.TrimSuffix(schema, ".xsd") + "-0.9.1.xsd"
		}
		args := append([]string{"--noout", "--nonet", "--schema", filepath.Join(v.xsd, schema)}, v.files[root]...)
		if out, err := exec.Command("xmllint", args...).CombinedOutput(); err != nil {
			v.Errorf("xmllint: %v\n%.2000s", err, out)
		}
	}
}

// A clock that was a year ahead dates events; once it is put right, the next events
// come after these. Lists close in their period all the same.
func TestListsCloseInTheirPeriodAfterTheClockWasAhead(t *testing.T) {
	for _, restart := range []bool{false, true} {
		now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
		s := newSource(t, publisher.Options{Period: time.Hour, DumpPeriod: 24 * time.Hour, Now: func() time.Time { return now }}, "jobs")
		q := s.queue("jobs")
		s.submitN(q, 2)
		now = now.Add(61 * time.Second)
		s.settle() // the first list closes
		s.submitN(q, 2)
		s.settle()
		now = now.AddDate(-1, 0, 0) // put right
		if restart {
			s.reopen()
			q = s.queue("jobs")
		}
		dump := dumpAt(s, "pending")
		lists := func() int {
			return len(newMirror(s, "jobs", "pending").capability(sitemap.ChangeList).entries) - 2
		}
		for hour := range 6 {
			s.submitN(q, 1)
			must(t, s.pub.Tick(context.Background())) // as every second
			now = now.Add(59 * time.Minute)
			must(t, s.pub.Tick(context.Background()))
			if got := lists(); got != hour {
				t.Errorf("restart %v: %d lists are closed early in hour %d", restart, got, hour)
			}
			now = now.Add(2 * time.Minute)
			must(t, s.pub.Tick(context.Background()))
			if got := lists(); got != hour+1 {
				t.Errorf("restart %v: %d lists are closed after hour %d", restart, got, hour)
			}
		}
		s.settle()
		if dumpAt(s, "pending").Equal(dump) {
			t.Error("no dump is made while the last one is dated ahead")
		}
		m := newMirror(s, "jobs", "pending")
		m.dump()
		m.incremental(nil)
		m.compare(q)
	}
}

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}

// A mirror is a Destination that knows the specification and nothing else.
type mirror struct {
	*source
	list  string            // Capability List of the set
	files map[string]string // contents by URI
	since time.Time         // all changes up to then are in
	lost  int               // changed resources that were gone when asked for
}

func newMirror(s *source, queue, set string) *mirror {
	s.Helper()
	m := &mirror{source: s, files: map[string]string{}}
	for _, e := range s.document(strings.TrimSuffix(s.opts.BaseURI, "/") + "/.well-known/resourcesync").entries {
		if strings.Contains(e.Loc, "/"+queue+"/"+set+"/") {
			m.list = e.Loc
		}
	}
	if m.list == "" {
		s.Fatalf("the Source Description does not name the set %s of %s", set, queue)
	}
	return m
}

// capability returns the document that the Capability List names. It names no Change
// Dump without packages.
func (m *mirror) capability(c sitemap.Capability) document {
	m.Helper()
	for _, e := range m.document(m.list).entries {
		if e.Capability == c {
			return m.document(e.Loc)
		}
	}
	if c != sitemap.ChangeDump {
		m.Fatalf("no %s in %s", c, m.list)
	}
	return document{}
}

// baseline takes what the Resource List has.
func (m *mirror) baseline() {
	m.Helper()
	m.files = map[string]string{}
	d := m.capability(sitemap.ResourceList)
	m.since = d.head.At
	lists := []document{d}
	if d.root == sitemap.SitemapIndex {
		lists = nil
		for _, e := range d.entries {
			lists = append(lists, m.document(e.Loc))
		}
	}
	for _, d := range lists {
		for _, e := range d.entries {
			m.fetch(&e)
		}
	}
}

// incremental applies the Change Lists. seen is called after each entry.
func (m *mirror) incremental(seen func(e *sitemap.Entry)) {
	m.Helper()
	index := m.capability(sitemap.ChangeList)
	parts, from := index.entries, index.head.From
	if m.since.Before(from) { // the archive names older lists
		parts = m.lists()
		from = parts[0].From
	}
	if m.since.Before(from) {
		m.Fatalf("changes since %v are not published, only since %v", m.since, from)
	}
	for _, part := range parts {
		if !part.Until.IsZero() && part.Until.Before(m.since) {
			continue
		}
		d := m.document(part.Loc)
		if m.opts.Dialect < sitemap.V09 && (!d.head.From.Equal(part.From) || !d.head.Until.Equal(part.Until)) {
			m.Errorf("%s: from %v until %v, in the index from %v until %v", part.Loc, d.head.From, d.head.Until, part.From, part.Until)
		}
		for _, e := range d.entries {
			if e.Changed().After(m.since) {
				m.apply(&e, "")
				if seen != nil {
					seen(&e)
				}
			}
		}
		if n := len(d.entries); n > 0 && d.entries[n-1].Changed().After(m.since) {
			m.since = d.entries[n-1].Changed()
		}
	}
}

// dumps applies the packages of the Change Dump.
func (m *mirror) dumps() (packages int) {
	m.Helper()
	d := m.capability(sitemap.ChangeDump)
	all, from := d.entries, d.head.From
	if m.since.Before(from) {
		if all = m.packages(); len(all) > 0 {
			from = all[0].From
		}
	}
	if m.since.Before(from) {
		m.Fatalf("changes since %v are not packed, only since %v", m.since, from)
	}
	for _, e := range all {
		if e.Until.Before(m.since) {
			continue
		}
		data := m.body(e.Loc)
		check(m, &e, string(data))
		manifest, z := openPackage(m, data)
		if !manifest.head.From.Equal(e.From) || !manifest.head.Until.Equal(e.Until) {
			m.Errorf("%s: manifest from %v until %v, entry from %v until %v", e.Loc, manifest.head.From, manifest.head.Until, e.From, e.Until)
		}
		for _, c := range manifest.entries {
			if c.Changed().After(m.since) {
				contents := ""
				if c.Path != "" {
					contents = z[strings.TrimPrefix(c.Path, "/")]
				}
				m.apply(&c, contents)
			}
		}
		m.since = e.Until
		packages++
	}
	return packages
}

func openPackage(m *mirror, data []byte) (document, map[string]string) {
	m.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	must(m, err)
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		must(m, err)
		text, err := io.ReadAll(r)
		must(m, err)
		files[f.Name] = string(text)
	}
	return parse(m, []byte(files["manifest.xml"])), files
}

// apply does what a change says; without contents the resource is fetched.
func (m *mirror) apply(e *sitemap.Entry, contents string) {
	m.Helper()
	switch {
	case e.Change == sitemap.Deleted:
		delete(m.files, e.Loc)
	case e.Path != "":
		check(m, e, contents)
		m.files[e.Loc] = contents
	default:
		m.fetch(e)
	}
}

// fetch gets a resource. One that is gone, or is no longer what the entry
// says, has a change coming.
func (m *mirror) fetch(e *sitemap.Entry) {
	m.Helper()
	resp := m.get(e.Loc)
	contents := string(read(m, resp))
	if resp.StatusCode != http.StatusOK || digests(contents) != hashes(e) {
		m.lost++
		delete(m.files, e.Loc)
		return
	}
	check(m, e, contents)
	m.files[e.Loc] = contents
}

func check(m *mirror, e *sitemap.Entry, contents string) {
	m.Helper()
	if got := hashes(e); got != digests(contents) && got != strings.Fields(digests(contents))[0] {
		m.Errorf("%s: entry has %s, resource %s", e.Loc, got, digests(contents))
	}
	if e.Length != int64(len(contents)) || e.Type == "" {
		m.Errorf("%s: length %d type %q, resource has %d", e.Loc, e.Length, e.Type, len(contents))
	}
}

func hashes(e *sitemap.Entry) string {
	var out []string
	for _, h := range e.Hashes {
		out = append(out, h.Alg+":"+h.Value)
	}
	return strings.Join(out, " ")
}

func digests(contents string) string {
	sha := sha256.Sum256([]byte(contents))
	return "sha-256:" + hex.EncodeToString(sha[:])
}

// compare checks that the mirror has what the queue has.
func (m *mirror) compare(q *queuefs.Queue) {
	m.Helper()
	want := map[string]string{}
	root := strings.TrimSuffix(m.opts.BaseURI, "/") + "/queues/" + q.ID() + "/"
	jobs, err := q.List(index.Filter{Limit: 1 << 20})
	must(m, err)
	replica := strings.HasSuffix(m.list, "/replica/capabilitylist.xml")
	for _, j := range jobs {
		if replica || j.Status == job.Pending {
			p, err := q.Payload(j.ID)
			must(m, err)
			data, err := io.ReadAll(p)
			must(m, err)
			p.Close()
			want[root+"payload/"+j.ID.String()] = string(data)
		}
		if replica {
			text, _, err := q.JobFile(j.ID, j.Status)
			must(m, err)
			want[root+j.Status.String()+"/"+j.ID.String()] = string(text)
			for _, r := range j.Results {
				_, in, err := q.Result(j.ID, r.Name)
				must(m, err)
				data, err := io.ReadAll(in)
				must(m, err)
				in.Close()
				want[root+"result/"+j.ID.String()+"/"+r.Name] = string(data)
			}
		}
	}
	got := maps.Clone(m.files)
	delete(got, root+"queue-info.txt")
	if !maps.Equal(got, want) {
		m.Errorf("mirror of %s differs:\n%s", path.Base(path.Dir(m.list)), difference(got, want))
	}
}

func difference(got, want map[string]string) string {
	var out []string
	for k, v := range want {
		if g, ok := got[k]; !ok {
			out = append(out, "missing "+k)
		} else if g != v {
			out = append(out, fmt.Sprintf("%s has %.40q, not %.40q", k, g, v))
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			out = append(out, "too much "+k)
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 20)], "\n")
}
