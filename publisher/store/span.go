package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// A Span is one line of the file lists or packages: a closed Change List, or a
// package of a Change Dump. It covers the events First to Last. Until is the
// time of the last event; From is that of the event before First, or of the
// creation of the queue.
type Span struct {
	First, Last queuefs.Seq
	From, Until time.Time
	Entries     int
	Length      int64  // bytes of the entries, or of the package
	SHA256      string // of the entries or the package, in hexadecimal; or Gone
	Left        int    // files that the package lacks: they were gone when it was made

	// Packed is how many bytes the file in gzip of a closed list has, once there is no
	// other file of its entries; 0 before. It is not in the line: the names of files tell.
	Packed int64
}

// Octets returns the bytes of the file of the span.
func (sp *Span) Octets() int64 {
	if sp.Packed > 0 {
		return sp.Packed
	}
	return sp.Length
}

// Words in the place of a digest.
const (
	Unknown = "-"    // the open list has no entries yet
	Gone    = "lost" // the file was damaged and could not be made again; Length is 0
)

// Lost reports whether the file of the span is gone for good.
func (sp Span) Lost() bool { return sp.SHA256 == Gone }

// Sum returns the digest of a span that is not lost.
func (sp *Span) Sum() [sha256.Size]byte {
	sum, _ := parseSum(sp.SHA256)
	return sum
}

// Doc returns the name of the package, or of its manifest or dump.
func (sp *Span) Doc(k names.Kind) names.Doc { return k.Of(uint64(sp.First)).As(sp.SHA256) }

// Spans are the closed lists or packages of a set, and their file. Each line of the
// file has a seal: lines that were damaged, or are of another file, do not count,
// and the others do.
type Spans struct {
	All []Span

	file   string // "lists" or "packages"
	path   string // of the set
	stamp  string
	length int64            // valid bytes of the file
	left   durable.Identity // of the file after the last change here; zero to write it anew
}

func newSpans(file, path, stamp string) Spans {
	return Spans{file: file, path: path, stamp: stamp}
}

// Current returns the last spans without a gap up to the event next, at most max
// of them.
func (s *Spans) Current(next queuefs.Seq, max int) []Span {
	i := len(s.All)
	for i > 0 && len(s.All)-i < max && s.All[i-1].Last+1 == next && !s.All[i-1].Lost() {
		i--
		next = s.All[i].First
	}
	return s.All[i:]
}

// Find returns the span from the event first on, unless it is lost.
func (s *Spans) Find(first queuefs.Seq) (Span, bool) {
	for i := len(s.All) - 1; i >= 0; i-- {
		if s.All[i].First == first {
			return s.All[i], !s.All[i].Lost()
		}
	}
	return Span{}, false
}

// Last returns the last span, the zero Span if there is none.
func (s *Spans) Last() Span {
	if n := len(s.All); n > 0 {
		return s.All[n-1]
	}
	return Span{}
}

// Before returns how many spans end before the event first.
func (s *Spans) Before(first queuefs.Seq) int {
	n, _ := slices.BinarySearchFunc(s.All, first, func(sp Span, first queuefs.Seq) int {
		if sp.Last < first {
			return -1
		}
		return 1
	})
	return n
}

// Octets returns the bytes of all spans.
func (s *Spans) Octets() (n int64) {
	for i := range s.All {
		n += s.All[i].Octets()
	}
	return n
}

// Lost returns how many spans are lost.
func (s *Spans) Lost() (n int) {
	for i := range s.All {
		if s.All[i].Lost() {
			n++
		}
	}
	return n
}

// HasFile reports whether there is a file with lines.
func (s *Spans) HasFile() bool { return s.length > 0 }

// text returns the contents of the file with the lines of all.
func (s *Spans) text(all []Span) []byte {
	text := []byte(linesHeader(s.file, s.stamp))
	for i := range all {
		text = s.appendLine(text, &all[i])
	}
	return text
}

// appendLine appends the line of a span with its seal.
func (s *Spans) appendLine(dst []byte, sp *Span) []byte {
	start := len(dst)
	dst = sp.append(dst)
	return append(append(append(dst, ' '), s.seal(string(dst[start:]))...), '\n')
}

// seal returns the seal of a line, bound to file, set and stamp.
func (s *Spans) seal(line string) string {
	sum := sha256.Sum256([]byte(s.file + " " + s.path + " " + s.stamp + "\n" + line))
	return hex.EncodeToString(sum[:16])
}

// Add puts a line at the end of the file in d; it is on stable storage when Add
// returns. The rest of an earlier attempt is cut off first, and a damaged file is
// written anew. After an error other than [queuefs.ErrFailed] the file does not have
// the line.
func (s *Spans) Add(st *Store, d *durable.Dir, sp Span) error {
	f, err := d.Append(s.file)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := durable.IdentityOf(f)
	if err != nil {
		return err
	}
	if s.length > 0 && now != s.left {
		return s.addAnew(st, d, sp)
	}
	var line []byte
	if s.length == 0 {
		line = append(line, linesHeader(s.file, s.stamp)...)
		if err := Cut(f, 0); err != nil {
			return err
		}
	}
	line = s.appendLine(line, &sp)
	if _, err := f.Write(line); err != nil {
		return errors.Join(err, f.Truncate(s.length))
	}
	if err := d.SyncFile(f); err != nil {
		return errors.Join(queuefs.ErrFailed, err)
	}
	if s.length == 0 {
		if err := d.Sync(); err != nil {
			return errors.Join(queuefs.ErrFailed, err)
		}
	}
	s.length += int64(len(line))
	s.All = append(s.All, sp)
	s.left, err = durable.IdentityOf(f)
	return err
}

// addAnew is Add for a file not as it was left: damaged, or with the rest of an earlier
// attempt.
func (s *Spans) addAnew(st *Store, d *durable.Dir, sp Span) error {
	now, err := d.ReadFile(s.file, nil, maxFile)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(now, s.text(s.All)) {
		st.Report(s.path+"/"+s.file, "was damaged; written again")
	}
	return s.write(st, d, append(slices.Clip(s.All), sp))
}

// Shorten removes the first n lines from the file in d. A failed sync is
// [queuefs.ErrFailed], and so is an error if the lines are gone all the same.
func (s *Spans) Shorten(st *Store, d *durable.Dir, n int) error {
	if n == 0 {
		return nil
	}
	return s.write(st, d, slices.Clone(s.All[n:]))
}

// Lose marks the span from the event first on as lost. Errors are those of Shorten.
func (s *Spans) Lose(st *Store, d *durable.Dir, first queuefs.Seq) error {
	all := slices.Clone(s.All)
	for i := range all {
		if all[i].First == first {
			all[i].SHA256, all[i].Length, all[i].Packed = Gone, 0, 0
		}
	}
	return s.write(st, d, all)
}

// SetPacked sets Packed of the span from the event first on, in memory.
func (s *Spans) SetPacked(first queuefs.Seq, octets int64) {
	s.All = slices.Clone(s.All) // readers have the one of before
	for i := range s.All {
		if s.All[i].First == first {
			s.All[i].Packed = octets
		}
	}
}

// Renew writes the file anew, if there is one. Errors are those of Shorten.
func (s *Spans) Renew(st *Store, d *durable.Dir) error {
	if s.length == 0 {
		return nil
	}
	return s.write(st, d, s.All)
}

// write replaces the file by one with the lines of all.
func (s *Spans) write(st *Store, d *durable.Dir, all []Span) error {
	out, err := st.Temp()
	if err != nil {
		return err
	}
	defer out.Discard()
	text := s.text(all)
	if _, err := out.Write(text); err != nil {
		return err
	}
	if err := out.Commit(d, s.file); err != nil {
		if out.name == "" { // it is in place, but maybe not to stay
			return errors.Join(queuefs.ErrFailed, err)
		}
		now, e := d.ReadFile(s.file, nil, maxFile)
		if e == nil && bytes.Equal(now, text) { // an error, and yet it was done
			return errors.Join(queuefs.ErrFailed, err)
		}
		return err
	}
	s.All, s.length = all, int64(len(text))
	s.left, err = out.Identity()
	return err
}

// Whole reports whether the file in d has the lines in memory, and no others.
func (s *Spans) Whole(d *durable.Dir) (bool, error) {
	if s.length == 0 {
		return true, nil
	}
	now, err := d.ReadFile(s.file, nil, maxFile)
	if err != nil && !Unusable(err) {
		return false, err
	}
	return err == nil && bytes.Equal(now, s.text(s.All)), nil
}

// read reads the file, if there is one. After a crash the last line may lack
// its end; then it does not count. Lines that do not verify are left out; bad is
// their number. A file with neither header nor lines that verify is damaged.
func (s *Spans) read(d *durable.Dir) (bad int, err error) {
	f, err := d.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	id, err := durable.IdentityOf(f)
	if err != nil {
		return 0, err
	}
	data, err := d.ReadFile(s.file, nil, maxFile)
	if err != nil {
		return 0, err
	}
	size := len(data)
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if len(data) == 0 {
		return 0, nil
	}
	rest, ok := bytes.CutPrefix(data, []byte(linesHeader(s.file, s.stamp)))
	if !ok {
		bad++
	}
	for line := range strings.Lines(string(rest)) {
		sp, err := s.parseLine(strings.TrimSuffix(line, "\n"))
		if err == nil && sp.First <= s.Last().Last {
			err = errors.New("not in order")
		}
		if err != nil {
			bad++
			continue
		}
		s.All = append(s.All, sp)
	}
	if !ok && len(s.All) == 0 {
		first, _, _ := bytes.Cut(data, []byte{'\n'})
		return bad, Damaged("%s is not of %s: %.200q", s.file, s.stamp, first)
	}
	s.length = int64(len(data))
	if bad == 0 && size == len(data) {
		s.left = id
	}
	return bad, nil
}

// parseLine reads a line with its seal.
func (s *Spans) parseLine(line string) (Span, error) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || line[i+1:] != s.seal(line[:i]) {
		return Span{}, durable.ErrDamaged
	}
	return parseSpan(line[:i])
}

// append prints the line, parseSpan reads it.
func (sp *Span) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(sp.First), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(sp.Last), 10)
	dst = sitemap.AppendTime(append(dst, ' '), sp.From)
	dst = sitemap.AppendTime(append(dst, ' '), sp.Until)
	dst = strconv.AppendInt(append(dst, ' '), int64(sp.Entries), 10)
	dst = strconv.AppendInt(append(dst, ' '), sp.Length, 10)
	dst = append(append(dst, ' '), sp.SHA256...)
	return strconv.AppendInt(append(dst, ' '), int64(sp.Left), 10)
}

func parseSpan(line string) (Span, error) {
	w := words{left: line}
	sp := Span{First: w.seq(), Last: w.seq(), From: w.time(), Until: w.time(), Entries: int(w.int()), Length: w.int(), SHA256: w.word(), Left: int(w.int())}
	if err := w.end(); err != nil {
		return Span{}, err
	}
	if _, known := parseSum(sp.SHA256); !known && !sp.Lost() || sp.First == 0 || sp.Last < sp.First || sp.Entries < 0 || sp.Length < 0 {
		return Span{}, errors.New("out of range")
	}
	return sp, nil
}
