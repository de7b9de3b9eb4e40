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
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"

	"cutie/queuefs/journal"
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
