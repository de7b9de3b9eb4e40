// Package image keeps images of a home in an object store: the contents of its
// directory at a checkpoint. With an image the journal before it can go.
//
//	object                   contents
//	snapshot/NUMBER          a manifest: it names all of an image
//	image/NUMBER-RANDOM      pieces, each compressed by itself; made for image NUMBER
//
// An image has files of the directory, in pieces, and for each page of the index the job
// files and small payloads of its jobs. What has not changed since the last image is named
// again, and stays where it is. When less than half of an object is named, this half is
// written anew.
//
// # Who may delete
//
// The manifest is the last object of an image, made by a conditional write. The number of
// the next one is the number of the newest one, plus 1. An owner deletes objects after
// it has made manifest N and then written a batch of the journal: so it was the owner
// after manifest N was there, and every later owner begins with N or a later one. It
// deletes objects made for images up to N, unless N or N-1 names them. Later owners name
// some of the same objects, and others with higher numbers. So an owner that sleeps in
// the middle of its deletions and wakes up when others have gone on takes nothing from
// them.
//
//	manifest N     journal             after a crash
//	none           since N-2           N-1 is the newest image, the pieces for N are deleted with the next one
//	made           since N-2           N is the newest image
//	made           since N-1           as it stands; N-1 stands in for N if N is damaged
package image

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/objects"
)

// A Manifest names all of an image.
type Manifest struct {
	Number  uint64
	Journal string      // identifies the journal
	From    journal.LSN // the journal before is of no use
	At      journal.LSN // replay begins here
	Made    int64       // µs
	Objects []Object
	Files   []File // by path
	Pages   []Page // by queue and number
}

// An Object is one with pieces.
type Object struct {
	Name string
	Size int64
	Live int64 // bytes in named pieces
}

// A Piece is some bytes in an object.
type Piece struct {
	Object int // of the manifest
	At     int64
	Stored int64 // compressed
	Size   int64
	Sum    [sha256.Size]byte // of the bytes before they were compressed
}

// A File is a file of the directory.
type File struct {
	Path     string // below the home
	Size     int64
	Modified int64 // ns
	Pieces   []Piece
}

// A Page has the files of the jobs of a page of the index.
type Page struct {
	Queue    string
	Number   int
	Version  uint64  // of the page
	Jobs     []Piece // entries with job files, each with the small results of its job after it
	Payloads []Span  // entries with small payloads, in order
}

// A Span has the small payloads of jobs with numbers of a range. Some of these jobs may
// be gone.
type Span struct {
	First, Last uint64
	Piece
}

const (
	magic        = "cutie-s1"
	objectPrefix = "image/"
	maxManifest  = 256 << 20 // bytes
)

// Manifests is how the names of manifests begin.
const Manifests = "snapshot/"

// ManifestName returns the name of the object of a manifest.
func ManifestName(number uint64) string { return fmt.Sprintf("%s%020d", Manifests, number) }

// manifestNumber is the opposite of ManifestName; 0 if name is not one of its names.
func manifestNumber(name string) (number uint64) {
	if _, err := fmt.Sscanf(strings.TrimPrefix(name, Manifests), "%d", &number); err != nil || ManifestName(number) != name {
		return 0
	}
	return number
}

// objectName returns the name of an object for an image.
func objectName(number uint64, random string) string {
	return fmt.Sprintf("%s%020d-%s", objectPrefix, number, random)
}

// objectNumber returns the number of the image an object was made for; 0 for another name.
func objectNumber(name string) (number uint64) {
	digits, random, _ := strings.Cut(strings.TrimPrefix(name, objectPrefix), "-")
	if _, err := fmt.Sscanf(digits, "%d", &number); err != nil || objectName(number, random) != name {
		return 0
	}
	return number
}

// bytes returns the bytes of the manifest: magic, the rest compressed, and the SHA-256 of
// its name and both.
func (m *Manifest) bytes(enc *zstd.Encoder) []byte {
	var b []byte
	u := func(n uint64) { b = binary.AppendUvarint(b, n) }
	s := func(text string) { u(uint64(len(text))); b = append(b, text...) }
	piece := func(p *Piece) {
		u(uint64(p.Object))
		u(uint64(p.At))
		u(uint64(p.Stored))
		u(uint64(p.Size))
		b = append(b, p.Sum[:]...)
	}
	u(m.Number)
	s(m.Journal)
	u(uint64(m.From))
	u(uint64(m.At))
	u(uint64(m.Made))
	u(uint64(len(m.Objects)))
	for _, o := range m.Objects {
		s(o.Name)
		u(uint64(o.Size))
	}
	u(uint64(len(m.Files)))
	for _, f := range m.Files {
		s(f.Path)
		u(uint64(f.Size))
		u(uint64(f.Modified))
		u(uint64(len(f.Pieces)))
		for i := range f.Pieces {
			piece(&f.Pieces[i])
		}
	}
	u(uint64(len(m.Pages)))
	for _, g := range m.Pages {
		s(g.Queue)
		u(uint64(g.Number))
		u(g.Version)
		u(uint64(len(g.Jobs)))
		for i := range g.Jobs {
			piece(&g.Jobs[i])
		}
		u(uint64(len(g.Payloads)))
		for i := range g.Payloads {
			u(g.Payloads[i].First)
			u(g.Payloads[i].Last)
			piece(&g.Payloads[i].Piece)
		}
	}
	out := enc.EncodeAll(b, []byte(magic))
	sum := manifestSum(m.Number, out)
	return append(out, sum[:]...)
}

func manifestSum(number uint64, data []byte) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(ManifestName(number)), data...))
}

var errForm = errors.New("is no manifest of an image")

// parseManifest reads the bytes of manifest number.
func parseManifest(number uint64, data []byte, dec *zstd.Decoder) (*Manifest, error) {
	n := len(data) - sha256.Size
	switch {
	case n < len(magic) || string(data[:len(magic)]) != magic:
		return nil, errForm
	case manifestSum(number, data[:n]) != [sha256.Size]byte(data[n:]):
		return nil, errors.New("does not have its digest")
	}
	b, err := dec.DecodeAll(data[len(magic):n], nil)
	if err != nil {
		return nil, errForm
	}
	r := reader{bytes.NewReader(b), nil}
	m := &Manifest{Number: r.u(), Journal: r.s(), From: journal.LSN(r.u()), At: journal.LSN(r.u()), Made: r.i()}
	m.Objects = make([]Object, r.count())
	for i := range m.Objects {
		m.Objects[i] = Object{Name: r.s(), Size: r.i()}
	}
	pieces := func() []Piece {
		all := make([]Piece, r.count())
		for i := range all {
			r.piece(&all[i], m.Objects)
		}
		return all
	}
	m.Files = make([]File, r.count())
	for i := range m.Files {
		m.Files[i] = File{Path: r.s(), Size: r.i(), Modified: r.i(), Pieces: pieces()}
	}
	m.Pages = make([]Page, r.count())
	for i := range m.Pages {
		g := &m.Pages[i]
		g.Queue, g.Number, g.Version, g.Jobs = r.s(), int(r.i()), r.u(), pieces()
		g.Payloads = make([]Span, r.count())
		for j := range g.Payloads {
			p := &g.Payloads[j]
			p.First, p.Last = r.u(), r.u()
			r.piece(&p.Piece, m.Objects)
		}
	}
	if r.err != nil || r.Len() > 0 || m.Number != number {
		return nil, errForm
	}
	return m, nil
}

// A reader reads numbers and texts. Its first error stays.
type reader struct {
	*bytes.Reader
	err error
}

func (r *reader) fail() { r.err = errForm }

func (r *reader) u() uint64 {
	n, err := binary.ReadUvarint(r.Reader)
	if err != nil {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) i() int64 {
	n := r.u()
	if n > math.MaxInt64 {
		r.fail()
		return 0
	}
	return int64(n)
}

// count reads a number of things of at least a byte each.
func (r *reader) count() int {
	n := r.u()
	if n > uint64(r.Len()) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) s() string {
	b := make([]byte, r.count())
	if _, err := r.Read(b); err != nil && len(b) > 0 {
		r.fail()
	}
	return string(b)
}

// piece reads a piece of one of the objects, and counts it as live.
func (r *reader) piece(p *Piece, objects []Object) {
	object := r.below(len(objects))
	*p = Piece{Object: object, At: r.i(), Stored: r.i(), Size: r.i()}
	if n, _ := r.Read(p.Sum[:]); n < len(p.Sum) {
		r.fail()
	}
	if r.err != nil || p.Size > maxPiece || p.At > objects[object].Size-p.Stored {
		r.fail()
		return
	}
	objects[object].Live += p.Stored
}

// below reads a number below n.
func (r *reader) below(n int) int {
	i := r.u()
	if i >= uint64(n) {
		r.fail()
		return 0
	}
	return int(i)
}

// A Builder makes an image out of the last one and the changes since. New pieces wait in
// temporary files until Upload. It is for one goroutine. Close it in the end.
type Builder struct {
	store   *Store
	last    *Manifest // without anything in it if there is none
	temp    *durable.Dir
	m       *Manifest
	objects map[int]int // of last, and of m
	waste   []bool      // objects of last to be named no more
	parts   []*part     // not yet in the store; the last one may grow
}

// A part is an object to be.
type part struct {
	object int
	f      *os.File // without a name
}

// Begin begins the image after the last one, nil for the first. of has its
// journal, and the place in it. temp is for temporary files.
func (s *Store) Begin(last *Manifest, of Manifest, now time.Time, temp *durable.Dir) *Builder {
	if last == nil {
		last = &Manifest{}
	}
	b := &Builder{store: s, last: last, temp: temp, objects: map[int]int{}, waste: make([]bool, len(last.Objects)),
		m: &Manifest{Number: last.Number + 1, Journal: of.Journal, From: of.From, At: of.At, Made: now.UnixMicro()}}
	small := 0
	for i, o := range last.Objects {
		if b.waste[i] = o.Live < o.Size/2; !b.waste[i] && o.Size < maxObject/smallPart {
			small++
		}
	}
	for i, o := range last.Objects {
		b.waste[i] = b.waste[i] || small > mostSmalls && o.Size < maxObject/smallPart
	}
	return b
}

// Close lets go of temporary files.
func (b *Builder) Close() {
	for _, p := range b.parts {
		p.f.Close()
	}
	b.parts = nil
}

// again names a piece of the last image again; false if its object is to go.
func (b *Builder) again(p Piece) (Piece, bool) {
	if b.waste[p.Object] {
		return p, false
	}
	i, ok := b.objects[p.Object]
	if !ok {
		i = len(b.m.Objects)
		b.objects[p.Object] = i
		o := b.last.Objects[p.Object]
		b.m.Objects = append(b.m.Objects, Object{Name: o.Name, Size: o.Size})
	}
	p.Object = i
	return p, true
}

// stays reports whether all pieces can be named again.
func (b *Builder) stays(pieces []Piece) bool {
	return !slices.ContainsFunc(pieces, func(p Piece) bool { return b.waste[p.Object] })
}

// add writes a new piece.
func (b *Builder) add(data []byte, sum [sha256.Size]byte) (Piece, error) {
	stored := b.store.enc.EncodeAll(data, nil)
	i := len(b.parts) - 1
	if i < 0 || b.m.Objects[b.parts[i].object].Size >= maxObject {
		if err := b.begin(); err != nil {
			return Piece{}, err
		}
		i++
	}
	o := &b.m.Objects[b.parts[i].object]
	p := Piece{Object: b.parts[i].object, At: o.Size, Stored: int64(len(stored)), Size: int64(len(data)), Sum: sum}
	if _, err := b.parts[i].f.WriteAt(stored, o.Size); err != nil {
		return p, err
	}
	o.Size += p.Stored
	return p, nil
}

func (b *Builder) begin() error {
	f, name, err := b.temp.Temp()
	if err != nil {
		return err
	}
	if err := b.temp.Remove(name); err != nil {
		return errors.Join(err, f.Close())
	}
	b.parts = append(b.parts, &part{len(b.m.Objects), f})
	b.m.Objects = append(b.m.Objects, Object{Name: objectName(b.m.Number, rand.Text())})
	return nil
}

// doubt is how long after its last change a file may change again and keep its date.
const doubt = 2 * time.Second

// Same names a file again if it has not changed since the last image.
func (b *Builder) Same(path string, size, modified int64) bool {
	i, ok := b.last.file(path)
	if !ok {
		return false
	}
	f := b.last.Files[i]
	if f.Size != size || f.Modified != modified || b.last.Made*1000-modified < int64(doubt) || !b.stays(f.Pieces) {
		return false
	}
	f.Pieces = slices.Clone(f.Pieces)
	for j := range f.Pieces {
		f.Pieces[j], _ = b.again(f.Pieces[j])
	}
	b.m.Files = append(b.m.Files, f)
	return true
}

// AddFile reads a file as far as it was when it had a size. Pieces as in the last image
// are named again.
func (b *Builder) AddFile(path string, size, modified int64, from io.Reader) error {
	f := File{Path: path, Modified: modified}
	var was []Piece
	if i, ok := b.last.file(path); ok {
		was = b.last.Files[i].Pieces
	}
	buf := make([]byte, min(filePiece, size))
	for f.Size < size {
		n, err := io.ReadFull(from, buf[:min(int64(len(buf)), size-f.Size)])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			break // it has become shorter
		}
		sum := sha256.Sum256(buf[:n])
		p, same := Piece{}, false
		if i := len(f.Pieces); i < len(was) && was[i].Sum == sum && was[i].Size == int64(n) {
			p, same = b.again(was[i])
		}
		if !same {
			if p, err = b.add(buf[:n], sum); err != nil {
				return err
			}
		}
		f.Pieces = append(f.Pieces, p)
		f.Size += int64(n)
	}
	b.m.Files = append(b.m.Files, f)
	return nil
}

// A Job is a job of a page.
type Job struct {
	ID   uint64
	Size int64 // bytes of a small payload; -1 for an object of its own
}

// A Source reads jobs. A job gone by now has nil.
type Source interface {
	JobFile(id uint64) (entries [][]byte, err error) // the job file, and what stands beside it
	Payload(id uint64) ([]byte, error)
}

// mostSpans is how many spans a page has at most, about, before they are written together.
const mostSpans = 8

// AddPage adds a page with its jobs, in order. Without a change since the last image, by its
// version, nothing is read. Of payloads only the ones in no span are read.
func (b *Builder) AddPage(queue string, number int, version uint64, jobs []Job, from Source) (err error) {
	g := Page{Queue: queue, Number: number, Version: version}
	var last Page
	if i, ok := b.last.page(queue, number); ok {
		last = b.last.Pages[i]
	}
	covered := func(uint64) bool { return false }
	if len(last.Payloads) <= mostSpans {
		g.Payloads = b.spans(last.Payloads, jobs)
		covered = func(id uint64) bool {
			i, _ := slices.BinarySearchFunc(g.Payloads, id, func(s Span, id uint64) int { return cmp.Compare(s.Last, id) })
			return i < len(g.Payloads) && g.Payloads[i].First <= id
		}
	}
	if last.Version == version && len(last.Jobs) > 0 && b.stays(last.Jobs) {
		for _, p := range last.Jobs {
			p, _ = b.again(p)
			g.Jobs = append(g.Jobs, p)
		}
	} else if g.Jobs, err = b.jobFiles(jobs, from); err != nil {
		return fmt.Errorf("queue %s: job files of page %d: %w", queue, number, err)
	}
	if err := b.payloads(&g, jobs, covered, from); err != nil {
		return fmt.Errorf("queue %s: payloads of page %d: %w", queue, number, err)
	}
	if len(g.Jobs)+len(g.Payloads) > 0 {
		b.m.Pages = append(b.m.Pages, g)
	}
	return nil
}

// spans names spans again if at least half of their bytes is of present jobs.
func (b *Builder) spans(last []Span, jobs []Job) (kept []Span) {
	for _, s := range last {
		live := int64(0)
		for _, j := range jobs {
			if j.ID >= s.First && j.ID <= s.Last && j.Size >= 0 {
				live += j.Size + 4 // an entry has about so many bytes more
			}
		}
		if live < s.Size/2 || live == 0 {
			continue
		}
		if p, ok := b.again(s.Piece); ok {
			s.Piece = p
			kept = append(kept, s)
		}
	}
	return kept
}

func (b *Builder) jobFiles(jobs []Job, from Source) (pieces []Piece, err error) {
	var buf []byte
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		p, err := b.add(buf, sha256.Sum256(buf))
		pieces, buf = append(pieces, p), buf[:0]
		return err
	}
	for _, j := range jobs {
		entries, err := from.JobFile(j.ID)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			buf = appendEntry(buf, j.ID, e)
		}
		if len(buf) >= packPiece {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	return pieces, flush()
}

// payloads adds spans with the small payloads in none so far.
func (b *Builder) payloads(g *Page, jobs []Job, covered func(uint64) bool, from Source) error {
	var buf []byte
	var s Span
	var added []Span
	flush := func() (err error) {
		if len(buf) > 0 {
			s.Piece, err = b.add(buf, sha256.Sum256(buf))
			added, buf = append(added, s), buf[:0]
		}
		return err
	}
	for _, j := range jobs {
		if covered(j.ID) { // no span goes over another one
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		if j.Size < 0 {
			continue
		}
		data, err := from.Payload(j.ID)
		if err != nil {
			return err
		}
		if data == nil {
			continue
		}
		if len(buf) == 0 {
			s.First = j.ID
		}
		s.Last = j.ID
		if buf = appendEntry(buf, j.ID, data); len(buf) >= packPiece {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	g.Payloads = append(g.Payloads, added...)
	slices.SortFunc(g.Payloads, func(x, y Span) int { return cmp.Compare(x.First, y.First) })
	return nil
}

func appendEntry(buf []byte, id uint64, data []byte) []byte {
	buf = binary.AppendUvarint(buf, id)
	return append(binary.AppendUvarint(buf, uint64(len(data))), data...)
}

// Entries calls visit with the entries of a piece of a page.
func Entries(piece []byte, visit func(id uint64, data []byte)) error {
	for len(piece) > 0 {
		id, n := binary.Uvarint(piece)
		size, m := binary.Uvarint(piece[max(n, 0):])
		if n <= 0 || m <= 0 || size > uint64(len(piece)-n-m) {
			return errors.New("piece of a page makes no sense")
		}
		piece = piece[n+m:]
		visit(id, piece[:size:size])
		piece = piece[size:]
	}
	return nil
}

// Upload puts complete objects into the store, and with all the last one, too.
func (b *Builder) Upload(ctx context.Context, all bool) error {
	n := len(b.parts)
	if n > 0 && !all && b.m.Objects[b.parts[n-1].object].Size < maxObject {
		n--
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, p := range b.parts[:n] {
		o := b.m.Objects[p.object]
		g.Go(func() error {
			return b.store.again(ctx, func(ctx context.Context) error {
				return b.store.Objects.Put(ctx, o.Name, io.NewSectionReader(p.f, 0, o.Size), o.Size)
			})
		})
	}
	err := g.Wait()
	if err == nil {
		for _, p := range b.parts[:n] {
			p.f.Close()
		}
		b.parts = b.parts[n:]
	}
	return err
}

// Made returns the time of the image.
func (b *Builder) Made() time.Time { return time.UnixMicro(b.m.Made) }

// After gives the image the number after a newer one, if it is still of the same owner.
func (b *Builder) After(number uint64) { b.m.Number = number + 1 }

// ErrTaken: there is another image of the number.
var ErrTaken = errors.New("number of the image is taken")

// Commit puts the rest into the store, and then the manifest: from this instant on the
// image is there. The error is [ErrTaken] if there is another one of its number.
func (b *Builder) Commit(ctx context.Context) (*Manifest, error) {
	if err := b.Upload(ctx, true); err != nil {
		return nil, err
	}
	slices.SortFunc(b.m.Files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	slices.SortFunc(b.m.Pages, comparePages)
	data := b.m.bytes(b.store.enc)
	m, err := parseManifest(b.m.Number, data, b.store.dec) // as every reader will
	if err != nil {
		return nil, err
	}
	name := ManifestName(m.Number)
	err = objects.Again(ctx, b.store.Patience, func(ctx context.Context) (bool, error) {
		failed := b.store.Objects.Create(ctx, name, data)
		if failed == nil {
			return true, nil
		}
		there, err := objects.Read(ctx, b.store.Objects, name, int64(len(data)))
		switch {
		case err == nil && string(there) == string(data):
			return true, nil
		case err == nil || errors.Is(err, objects.ErrTooLong):
			return true, ErrTaken
		}
		return false, failed
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func comparePages(x, y Page) int {
	return cmp.Or(strings.Compare(x.Queue, y.Queue), cmp.Compare(x.Number, y.Number))
}

func (m *Manifest) page(queue string, number int) (int, bool) {
	return slices.BinarySearchFunc(m.Pages, Page{Queue: queue, Number: number}, comparePages)
}

func (m *Manifest) file(path string) (int, bool) {
	return slices.BinarySearchFunc(m.Files, path, func(f File, path string) int { return strings.Compare(f.Path, path) })
}
