package soif

import (
	"fmt"
	"io"
	"strings"
)

// An Action is the wish of a Gatherer about a resource.
type Action uint8

const (
	Update  Action = 1 + iota // take this description
	Delete                    // forget the one there is
	Refresh                   // the one there is holds still
)

func (a Action) String() string {
	switch a {
	case Update:
		return "update"
	case Delete:
		return "delete"
	case Refresh:
		return "refresh"
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// A Gathered is one entry of the answer of a Gatherer. Of Delete and Refresh
// the object has nothing but its URL.
type Gathered struct {
	Action Action
	Object Object
}

// A GatherReader reads the answer of a Harvest Gatherer: objects in a frame of
// its own.
//
//	@DELETE { URL… }
//	@REFRESH { URL… }
//	@UPDATE { OBJECT… }
//
// each any number of times. Objects outside of a frame are as in UPDATE.
type GatherReader struct {
	r     *Reader
	frame Action // around the reader; 0 is none
	err   error
}

// NewGatherReader returns a GatherReader over a fresh r.
func NewGatherReader(r *Reader) *GatherReader { return &GatherReader{r: r} }

// Read returns the next entry, or io.EOF after the last. Errors are as those of
// [Reader.Read].
func (g *GatherReader) Read() (e Gathered, err error) {
	if g.err == nil {
		e, g.err = g.read()
	}
	if g.err != nil {
		return Gathered{}, g.err
	}
	return e, nil
}

func (g *GatherReader) read() (Gathered, error) {
	r := g.r
	for {
		switch g.frame {
		case 0:
			if err := r.seek(); err != nil {
				return Gathered{}, err
			}
		default:
			r.attribute, r.size = "", -1
			if err := r.more(r.skip()); err != nil {
				return Gathered{}, err
			}
			if r.buf[r.pos] == '}' {
				r.pos++
				g.frame = 0
				continue
			}
		}
		if g.frame == Delete || g.frame == Refresh {
			url, err := r.token(visible)
			if err == nil && url == "" {
				err = r.wrong("a URL or } is wanted")
			}
			return Gathered{g.frame, Object{URL: url}}, err
		}
		if r.buf[r.pos] != '@' {
			return Gathered{}, r.wrong("an object begins with @")
		}
		if g.frame == 0 {
			if action, err := g.opens(); err != nil {
				return Gathered{}, err
			} else if action != 0 {
				g.frame = action
				continue
			}
		}
		o, err := r.read()
		return Gathered{Update, o}, err
	}
}

// opens uses the head of a frame, if there is one.
func (g *GatherReader) opens() (Action, error) {
	r := g.r
	const longest = len("@refresh")
	for r.end-r.pos <= longest {
		if err := r.fill(); err != nil {
			if err == io.EOF {
				break
			}
			return 0, err
		}
	}
	for a := Update; a <= Refresh; a++ {
		word := "@" + a.String()
		if r.end-r.pos <= len(word) || !strings.EqualFold(string(r.buf[r.pos:r.pos+len(word)]), word) {
			continue
		}
		if c := r.buf[r.pos+len(word)]; !blank(c) && c != '{' {
			continue
		}
		r.pos += len(word)
		if err := r.more(r.skip()); err != nil {
			return 0, err
		}
		return a, r.want('{', "{ is wanted behind @"+strings.ToUpper(a.String()))
	}
	return 0, nil
}
