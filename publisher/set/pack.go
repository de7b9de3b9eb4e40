package set

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/names"
	"cutie/queuefs"
	queuecontent "cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// A package is made in the background: of a closed Change List, or of engine pages for a
// Resource Dump. Nothing is copied when an event happens, and nothing waits for a package.
//
//	entries of a list ──▶ change ──┐         ┌── the record of the event
//	queue-info.txt ─────▶ info ────┼─ a file ─┤
//	jobs of a page ─────▶ job ─────┘         └── the file in the queue
//
// The engine keeps the events of lists without packages, see [Set.Holds]. So a package has
// each job file as it was, and small payloads of jobs culled since. Large payloads and results
// are files; what is gone by then is left out, and a later event says so.

// pack makes the package of the list.
func (t *Task) pack(pause func() bool) error {
	if !t.hasDumps() {
		return nil
	}
	sp := Span{First: t.list.First, From: t.list.From, Last: t.list.Last, Until: t.list.Until}
	err := t.make(&sp, names.PackageFile(sp.First), pause, func(p *packer) (sitemap.Head, error) {
		head := sitemap.Head{Capability: sitemap.ChangeDumpManifest, From: sp.From, Until: sp.Until, Links: t.Up()}
		err := t.changes(p.change)
		sp.Left = p.left
		return head, err
	})
	if err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outlived() {
		return ErrStopped
	}
	files := t.files
	files.Packages = append(slices.Clip(files.Packages), sp)
	if err := t.Set.write(dir, files); err != nil {
		return err
	}
	t.made.packed = sp.Last
	return nil
}

// compress makes the document in gzip stand for the list alone.
func (t *Task) compress(pause func() bool) error {
	if t.list.Packed > 0 {
		return nil
	}
	if err := t.needSpace(t.list.Length/4, 0); err != nil {
		return err
	}
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	in, err := t.EntriesOf(t.list.First, t.list.Length)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := t.Store.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	h := sha256.New()
	w := GzipWriters.Get().(*gzip.Writer)
	defer GzipWriters.Put(w)
	w.Reset(io.MultiWriter(out, h))
	if _, err := w.Write(t.ListHead(&t.list)); err != nil {
		return err
	}
	for at := int64(0); at < t.list.Length; at += 256 << 10 {
		if _, err := io.Copy(w, io.NewSectionReader(in, at, min(256<<10, t.list.Length-at))); err != nil {
			return err
		}
		if !pause() {
			return ErrStopped
		}
	}
	w.Write(sitemap.AppendFoot(nil, sitemap.URLSet)) // Close has its error
	if err := w.Close(); err != nil {
		return err
	}
	st, err := out.Stat()
	if err != nil {
		return err
	}
	if err := out.Commit(dir, names.GzipFile(t.list.First)); err != nil {
		return err
	}
	t.list.Packed, t.list.SHA256 = st.Size(), hex.EncodeToString(h.Sum(nil))
	t.Store.Verified.Trust(out.File, t.list.Sum())
	t.mu.Lock()
	defer t.mu.Unlock()
	i := Before(t.files.Lists, t.list.First)
	if t.outlived() || i == len(t.files.Lists) {
		return ErrStopped
	}
	files := t.files
	files.Lists = slices.Clone(files.Lists)
	files.Lists[i] = t.list
	if err := t.Set.write(dir, files); err != nil {
		return err
	}
	if err := dir.Remove(names.EntriesFile(t.list.First)); err != nil && !Absent(err) {
		t.made.unswept = true // a sweep tries again
	}
	return nil
}

// changes calls do with each entry of the list, and ends with its first error.
func (t *Task) changes(do func(e *names.Line) error) error {
	file, err := t.EntriesOf(t.list.First, t.list.Length)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, t.list.Length), 2*names.MaxEntry)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		var e names.Line
		if err == nil {
			e, err = names.ParseLine(line)
		}
		if err != nil {
			return Damaged("%s: %w", file.Name(), err)
		}
		if err := do(&e); err != nil {
			return err
		}
	}
}

// make writes a package, puts it in place under a name, and gives sp its entries, length and
// digest. fill adds the files and returns the head of the manifest. Without entries there is
// no package.
func (t *Task) make(sp *Span, name string, pause func() bool, fill func(*packer) (sitemap.Head, error)) error {
	dir, err := t.dir()
	if err != nil {
		return err
	}
	defer dir.Close()
	w, err := NewPackage(t.Store.Root(), t.Dialect, pause, t.needSpace)
	if err != nil {
		return err
	}
	defer w.Close()
	head, err := fill(&packer{Package: w, q: t.Queue, set: t.Kind, render: t.Renderer()})
	if err != nil {
		return err
	}
	if sp.Entries = w.Entries; sp.Entries == 0 {
		return nil
	}
	out, err := t.Store.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	if sp.Length, sp.SHA256, err = w.End(out, head); err != nil {
		return err
	}
	if err := out.Commit(dir, name); err != nil {
		return err
	}
	t.Store.Verified.Trust(out.File, sp.Sum())
	return nil
}

// A packer puts files of a queue into a package. Each file is compared with the length and
// digest of its entry. It is for one goroutine.
type packer struct {
	*Package
	q      Queue
	set    names.Set
	render names.Renderer
	left   int                // files left out
	events []ledger.Journaled // read last, with their parts
	pass   queuefs.Pass       // of job
}

var (
	// errReplaced is the error for a file that is gone, or another one by now; a later event
	// says so.
	errReplaced = errors.New("a later event has replaced it")
	// errChanged says that a file is another one by now, and no event does.
	errChanged = errors.New("file is not what it was")
)

// change adds an entry of a Change List, with its file unless it is a deletion.
func (p *packer) change(e *names.Line) error {
	if e.Deleted() {
		return p.Add(e)
	}
	of, ok := p.render.Refs.File(e.Loc())
	f := fileOf(e.Facts())
	if !ok || f.SHA256 == ([sha256.Size]byte{}) || f.Length < 0 {
		return &FileError{Loc: e.Loc(), Err: errors.New("no file of the queue, or without digest or length")}
	}
	if text := p.recorded(e.Seq(), of, f); text != nil {
		return p.AddText(e, f, text)
	}
	err := p.found(e, of, f)
	if errors.Is(err, errReplaced) {
		p.left++
		return nil
	}
	return err
}

// recorded returns a file from the record of its event, nil if that is gone or does not have
// the file.
func (p *packer) recorded(seq job.Seq, of names.File, f *Member) (text []byte) {
	if of.Result != "" {
		return nil
	}
	if n := len(p.events); n == 0 || seq < p.events[0].Seq || seq > p.events[n-1].Seq {
		p.events, _ = p.q.Journaled(seq-1, EventBatch, PartBytes) // after an error the files of now have it
	}
	if len(p.events) == 0 || seq < p.events[0].Seq || seq > p.events[len(p.events)-1].Seq {
		return nil
	}
	ev := &p.events[seq-p.events[0].Seq]
	if text = ev.Text; of.Payload {
		text = ev.Payload
	}
	if text == nil || !f.Is(text) {
		return nil
	}
	return text
}

// found adds an entry with the file there is by now. The error is errReplaced if a later event
// says that it is another one, or gone.
func (p *packer) found(e *names.Line, of names.File, f *Member) error {
	switch {
	case culled(p.q, p.render.Refs, e.Loc()):
		return errReplaced
	case of.Result != "":
		return p.result(e, of.Job, &job.Result{Name: of.Result, Size: f.Length, SHA256: f.SHA256, MediaType: f.Type})
	case of.Payload:
		in, err := p.q.Payload(of.Job)
		return p.payload(e, f, in, err)
	}
	var text []byte
	var facts job.Facts
	var err error
	if of.Job == 0 {
		text, facts = p.q.InfoFile()
	} else {
		text, facts, err = p.q.JobFile(of.Job, of.Status)
	}
	switch {
	case err == nil && f.Is(text):
		return p.AddText(e, f, text)
	case errors.Is(err, ledger.ErrNoJob), err == nil && facts.Modified.After(e.Time()), of.Job == 0:
		return errReplaced // the next event has its new state
	case err == nil:
		err = errChanged
	}
	return &FileError{Loc: e.Loc(), Err: err}
}

// culled reports whether the job of a file is gone.
func culled(q Queue, refs *names.Queue, loc string) bool {
	f, ok := refs.File(loc)
	if !ok || f.Job == 0 {
		return false
	}
	st, _ := q.Status(f.Job)
	return st == 0
}

// payload adds the entry of a payload or a result that was opened.
func (p *packer) payload(e Entry, f *Member, in *dir.Payload, err error) error {
	if err != nil {
		return &FileError{Loc: e.Loc(), Err: err}
	}
	defer in.Close()
	if in.Size() != f.Length {
		return &FileError{Loc: e.Loc(), Err: ErrDamaged}
	}
	return p.AddFile(e, f, in)
}

// result adds the entry of a result. The error is errReplaced if the job has it no longer: a
// requeue removes results at any time.
func (p *packer) result(e Entry, id job.ID, want *job.Result) error {
	is, in, err := p.q.Result(id, want.Name)
	if errors.Is(err, queuecontent.ErrNoResult) || errors.Is(err, ledger.ErrNoJob) || err == nil && (is.SHA256 != want.SHA256 || is.Size != want.Size) {
		if in != nil {
			in.Close()
		}
		return errReplaced
	}
	return p.payload(e, &Member{Length: want.Size, SHA256: want.SHA256, Type: cmp.Or(want.MediaType, job.DefaultMediaType)}, in, err)
}

// info adds queue-info.txt.
func (p *packer) info(text []byte, facts *job.Facts) error {
	return p.AddText(p.entry(p.render.Info(facts)), fileOf(facts), text)
}

// job adds the files of a job as its page had it at a version. A missing job file is
// left out if an event has touched the page since: the changes after the package lead
// to the state of now.
func (p *packer) job(page int, version job.Seq, e *ledger.Entry) error {
	if p.set == names.Pending && e.Status != job.Pending {
		return nil
	}
	if p.pass == nil {
		p.pass = p.q.Pass()
	}
	in, err := p.pass.Payload(e.Job)
	if err := p.payload(p.entry(p.render.Payload(p.set, e)), fileOf(&e.Payload), in, err); err != nil || p.set == names.Pending {
		return err
	}
	touched := func() bool {
		now, _, _, _ := p.q.PageVersion(page)
		return now != version
	}
	entry, f := p.entry(p.render.JobFile(e)), fileOf(&e.File)
	text, _, err := p.pass.JobFile(e.Job, e.Status)
	if err == nil && !f.Is(text) {
		err = errChanged
	}
	switch {
	case err == nil:
		err = p.AddText(entry, f, text)
	case touched():
		err = nil // its results stay, and no later change may name them
	default:
		err = &FileError{Loc: entry.Loc(), Err: err}
	}
	if err != nil {
		return err
	}
	for i := range e.Results {
		entry := p.entry(p.render.Result(e, &e.Results[i]))
		err := p.result(entry, e.Job, &e.Results[i])
		switch {
		case errors.Is(err, errReplaced) && touched():
		case errors.Is(err, errReplaced):
			return &FileError{Loc: entry.Loc(), Err: err}
		case err != nil:
			return err
		}
	}
	return nil
}

// entry returns an entry of a Resource Dump; it is lent.
func (p *packer) entry(e *sitemap.Entry) Entry { return &listed{e, p.render.Dialect} }

type listed struct {
	e *sitemap.Entry
	d sitemap.Dialect
}

func (l *listed) Loc() string { return l.e.Loc }

func (l *listed) Append(dst, path []byte) []byte {
	l.e.Path = string(path)
	return l.d.AppendEntry(dst, sitemap.URLSet, l.e)
}

// sizeOf returns the bytes of the files that job adds for jobs, and their number.
func (p *packer) sizeOf(jobs []ledger.Entry) (octets int64, files int) {
	for i := range jobs {
		switch e := &jobs[i]; {
		case p.set == names.Replica:
			octets, files = octets+e.Payload.Length+e.File.Length, files+2+len(e.Results)
			for _, r := range e.Results {
				octets += r.Size
			}
		case e.Status == job.Pending:
			octets, files = octets+e.Payload.Length, files+1
		}
	}
	return octets, files
}

// fileOf returns a file of a job as it stands in a package.
func fileOf(facts *job.Facts) *Member {
	return &Member{Length: facts.Length, SHA256: facts.SHA256, Type: facts.Type}
}

// infoSum returns the digest of queue-info.txt, "-" without it.
func infoSum(facts *job.Facts) string {
	if facts == nil {
		return "-"
	}
	return hex.EncodeToString(facts.SHA256[:])
}
