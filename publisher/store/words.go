package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// header is the first line of a file of ours.
func header(title, stamp string) string { return "cutie " + title + " 1 " + stamp + "\n" }

// parseSum reads a SHA-256 in hexadecimal; ok is false for any other word.
func parseSum(word string) (sum [sha256.Size]byte, ok bool) {
	b, err := hex.DecodeString(word)
	if err != nil || len(b) != len(sum) {
		return sum, false
	}
	return [sha256.Size]byte(b), true
}

// words reads a line of words with one blank between them.
type words struct {
	left string
	err  error
}

func (w *words) word() string {
	word, rest, more := strings.Cut(w.left, " ")
	if word == "" && w.err == nil {
		w.err = errors.New("word missing")
	}
	if w.left = rest; more && rest == "" && w.err == nil {
		w.err = errors.New("blank at the end")
	}
	return word
}

func (w *words) int() int64 {
	n, err := strconv.ParseInt(w.word(), 10, 64)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n
}

func (w *words) seq() queuefs.Seq {
	n, err := strconv.ParseUint(w.word(), 10, 64)
	if err != nil && w.err == nil {
		w.err = err
	}
	return queuefs.Seq(n)
}

func (w *words) time() time.Time {
	t, err := sitemap.ParseTime(w.word())
	if err != nil && w.err == nil {
		w.err = err
	}
	return t
}

// optionalTime reads a time, or "-" for none.
func (w *words) optionalTime() time.Time {
	if rest, ok := strings.CutPrefix(w.left, "- "); ok {
		w.left = rest
		return time.Time{}
	}
	return w.time()
}

func (w *words) end() error {
	if w.err == nil && w.left != "" {
		return fmt.Errorf("%.60q is too much", w.left)
	}
	return w.err
}

// appendOptionalTime prints a time, or "-" for none, and a blank.
func appendOptionalTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "- "...)
	}
	return append(sitemap.AppendTime(dst, t), ' ')
}
