package record

import (
	"sync"

	"cutie/queuefs/journal"
)

// An Encoder holds records in the form of the journal until that has copied them.
type Encoder struct {
	heads   []byte
	Records []journal.Contents
}

var encoders = sync.Pool{New: func() any { return new(Encoder) }}

// NewEncoder returns an empty encoder. Call Free after use.
func NewEncoder() *Encoder { return encoders.Get().(*Encoder) }

// Add encodes a record and returns its size.
func (e *Encoder) Add(r *Record) int {
	from := len(e.heads)
	e.heads = r.Append(e.heads)
	body := r.Payload.Data
	if r.Result != nil {
		body = r.Result
	}
	c := journal.Contents{Head: e.heads[from:len(e.heads):len(e.heads)], Body: body, Verify: r.Verify}
	e.Records = append(e.Records, c)
	return c.Size()
}

// Free makes the encoder ready for another use.
func (e *Encoder) Free() {
	clear(e.Records)
	e.heads, e.Records = e.heads[:0], e.Records[:0]
	if cap(e.heads) <= 1<<20 {
		encoders.Put(e)
	}
}
