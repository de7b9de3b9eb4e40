package entries

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/sitemap"
)

// A mold prints the entries of one shape in Change Lists. They differ in few values: the
// job, times, digests, the length and the event. A mold has the text between them, from an
// entry with values that stand nowhere else, printed by package sitemap as all entries are.
type mold struct {
	shape
	parts []part
	end   string
}

// A shape is everything that entries of a mold have in common.
type shape struct {
	of     form
	kind   queuefs.Kind
	change sitemap.Change
	file   bool // there are facts
	md5    bool
	typ    string // media type
}

// A form says which resource of the queue an entry is about.
type form uint8

// Forms; 0 has no molds. A status is added to some.
const (
	formGone    form = 0x10 // deleted payload
	formWent    form = 0x20 // deleted job file
	formJobFile form = 0x30
	formPayload form = 0x40 // and 8 for the set Replica
)

// A part is a text and the value after it.
type part struct {
	text  string
	value value
}

// A value differs between entries of a shape.
type value uint8

const (
	valueJob value = iota
	valueTime
	valueSeq
	valueModified // from here on, of facts
	valueSHA256
	valueMD5
	valueLength
	values
)

// append appends a value.
func (v value) append(dst []byte, ev *queuefs.Event, f *queuefs.Facts) []byte {
	switch v {
	case valueJob:
		return ev.Job.Append(dst)
	case valueTime:
		return sitemap.AppendTime(dst, ev.Time)
	case valueSeq:
		return strconv.AppendUint(dst, uint64(ev.Seq), 10)
	case valueModified:
		return sitemap.AppendTime(dst, f.Modified)
	case valueSHA256:
		return hex.AppendEncode(dst, f.SHA256[:])
	case valueMD5:
		return hex.AppendEncode(dst, f.MD5[:])
	}
	return strconv.AppendInt(dst, f.Length, 10)
}

func (m *mold) append(dst []byte, ev *queuefs.Event, f *queuefs.Facts) []byte {
	for i := range m.parts {
		dst = m.parts[i].value.append(append(dst, m.parts[i].text...), ev, f)
	}
	return append(dst, m.end...)
}

// Sample values of molds.
var (
	sampleEvent = queuefs.Event{Job: 590_417_263_814, Seq: 6_071_935_482_917, Time: time.Date(2891, 7, 23, 19, 43, 57, 318_642_000, time.UTC)}
	sampleFacts = queuefs.Facts{
		Length: 8_205_716_394_051, Modified: time.Date(2764, 5, 29, 17, 38, 41, 905_173_000, time.UTC),
		SHA256: [32]byte([]byte("a digest stands at this place ..")), MD5: [16]byte([]byte("another digest..")),
	}
)

// mostMolds bounds the molds of a Renderer: media types may be many.
const mostMolds = 48

// changed appends the entry of a resource in a Change List.
func (r *Renderer) changed(dst []byte, c sitemap.Change, of *resource, ev *queuefs.Event) []byte {
	sh := shape{of: of.form, kind: ev.Kind, change: c, file: of.facts != nil}
	if sh.of == 0 || r.Plain || ev.Seq == 0 || ev.Time.IsZero() {
		return r.append(dst, r.changedEntry(c, of, ev))
	}
	if sh.file {
		if of.facts.Modified.IsZero() || of.facts.Length < 0 {
			return r.append(dst, r.changedEntry(c, of, ev))
		}
		sh.md5, sh.typ = of.facts.MD5 != [16]byte{}, of.facts.Type
	}
	for i := range r.molds {
		if m := &r.molds[i]; m.shape == sh {
			return m.append(dst, ev, of.facts)
		}
	}
	start := len(dst)
	dst = r.append(dst, r.changedEntry(c, of, ev))
	if len(r.molds) < mostMolds {
		// References may have a sample value in them: then the shape has no mold.
		if m := r.mold(sh, of); bytes.Equal(m.append(nil, ev, of.facts), dst[start:]) {
			r.molds = append(r.molds, m)
		}
	}
	return dst
}

// mold makes the mold of a shape; of is a resource of it.
func (r *Renderer) mold(sh shape, of *resource) mold {
	ev, facts, sample := sampleEvent, sampleFacts, *of
	ev.Kind, facts.Type = sh.kind, sh.typ
	if !sh.md5 {
		facts.MD5 = [16]byte{}
	}
	known := valueModified
	if sh.file {
		sample.facts, known = &facts, values
	}
	line := string(r.append(nil, r.changedEntry(sh.change, &sample, &ev)))
	var texts [values]string
	for v := range known {
		texts[v] = string(v.append(nil, &sampleEvent, &sampleFacts))
	}
	m := mold{shape: sh}
	for at := 0; at < len(line); at++ {
		for v := range known {
			if rest, ok := strings.CutPrefix(line[at:], texts[v]); ok {
				m.parts = append(m.parts, part{line[:at], v})
				line, at = rest, -1
				break
			}
		}
	}
	m.end = line
	return m
}
