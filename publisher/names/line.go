package names

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"time"

	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A Line is an entry in a line of a Change List of ours.
type Line struct {
	Text []byte // with its end

	at    Position
	loc   string
	facts job.Facts // of the file
}

var (
	eventMark    = []byte(` cut:event="`)
	deletionMark = []byte(` change="` + sitemap.Deleted + `"`)
	pathMark     = []byte(` path="`)
)

// ParseLine reads a line. Of a deletion nothing but the text is read.
func ParseLine(line []byte) (l Line, err error) {
	l.Text = line
	if l.Deleted() {
		return l, nil
	}
	if bytes.IndexByte(line, '&') < 0 { // nearly always
		l.loc = between(line, "<loc>", '<')
		l.facts.Type = between(line, ` type="`, '"')
		length, err := strconv.ParseInt(between(line, ` length="`, '"'), 10, 64)
		_, sum, _ := bytes.Cut(line, []byte(`sha-256:`))
		n, e := hex.Decode(l.facts.SHA256[:], sum[:min(len(sum), 2*len(l.facts.SHA256))])
		seq, noSeq := strconv.ParseUint(between(line, `cut:seq="`, '"'), 10, 64)
		if err == nil && e == nil && noSeq == nil && n == len(l.facts.SHA256) && l.loc != "" {
			l.facts.Length, l.at.Seq = length, job.Seq(seq)
			return l, nil
		}
	}
	e, err := sitemap.NewLines(bytes.NewReader(line)).Read()
	if err != nil {
		return l, err
	}
	l.loc, l.facts, l.at = e.Loc, FactsOf(&e), Position{job.Seq(e.Seq), e.Changed()}
	return l, nil
}

// Deleted reports whether the file of the entry is gone.
func (l *Line) Deleted() bool { return bytes.Contains(l.Text, deletionMark) }

// Loc returns the reference of the file.
func (l *Line) Loc() string { return l.loc }

// Seq returns the number of the event.
func (l *Line) Seq() job.Seq { return l.at.Seq }

// Facts returns what the entry says of the file.
func (l *Line) Facts() *job.Facts { return &l.facts }

// Time returns the time of the event.
func (l *Line) Time() time.Time {
	if l.at.At.IsZero() {
		l.at, _ = parse(l.Text)
	}
	return l.at.At
}

// Append appends the line as it stands in the manifest of a package. path is that of its file,
// empty without one.
func (l *Line) Append(dst, path []byte) []byte {
	line := l.Text
	if i := bytes.Index(line, eventMark); i >= 0 && len(path) > 0 {
		dst = append(append(dst, line[:i]...), pathMark...)
		dst = append(append(dst, path...), '"')
		line = line[i:]
	}
	return append(dst, line...)
}
