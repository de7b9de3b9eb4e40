package mirror

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

// A daemon gives mirrors the parts of its newest events, out of its journal: job files as
// the events left them, and small payloads. So a mirror needs no request for each file, and
// none is missing after a replacement by the original. Parts are verified by
// the digests in the Change List. Of older events, and of Sources of other kinds, the
// mirror asks for the files.
//
// An answer is a sequence of events: a line with the number of the event and the lengths
// of its two parts, -1 without one, and then the parts.

// PartsPath is where they are, by queue.
const PartsPath = "/parts"

// Limits of one answer.
const (
	maxParts      = 1000    // events
	maxPartOctets = 4 << 20 // but for the last event
	maxPart       = 1 << 30 // octets of a part
)

// sendParts answers a mirror.
func (k *Keeper) sendParts(w http.ResponseWriter, r *http.Request) error {
	q, err := k.svc.Ask(r.PathValue("queue"))
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 63)
	if err != nil {
		return web.Errorf(http.StatusBadRequest, "parameter after is the number of an event")
	}
	memory := buffers.Of(r.Context())
	if err := memory.Take(maxPartOctets); err != nil {
		return err
	}
	events, err := q.Journaled(queuefs.Seq(after), maxParts, maxPartOctets)
	if errors.Is(err, queuefs.ErrGone) && len(events) == 0 {
		return web.Errorf(http.StatusGone, "event %d of %s is not in the journal any more; its files may be there", after+1, q.ID())
	}
	if err != nil && len(events) == 0 {
		return err
	}
	if err := memory.Grow(lengthOf(events) - maxPartOctets); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(w, 64<<10)
	for i := range events {
		e := &events[i]
		fmt.Fprintf(out, "%d %d %d\n", e.Seq, partLength(e.Text), partLength(e.Payload))
		out.Write(e.Text)
		out.Write(e.Payload)
	}
	return out.Flush()
}

func lengthOf(events []queuefs.Journaled) (n int) {
	for i := range events {
		n += len(events[i].Text) + len(events[i].Payload)
	}
	return n
}

func partLength(part []byte) int {
	if part == nil {
		return -1
	}
	return len(part)
}

// noPartsFor is how long a Source without parts is not asked for them again.
const noPartsFor = time.Minute

// parts asks for the missing parts of the first n events. A Source without them, or without
// memory for them, is no error.
func (b *backlog) parts(ctx context.Context, n int) error {
	if time.Now().Before(b.noParts) {
		return nil
	}
	for i := 0; i < n; {
		if b.events[i].whole() {
			i++
			continue
		}
		after := b.events[i].Seq - 1
		got, err := b.ask(ctx, i, after)
		if status := source.Status(err); status >= 400 && status < 500 || status == http.StatusServiceUnavailable {
			if status != http.StatusGone {
				b.noParts = time.Now().Add(noPartsFor)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if got <= after {
			return nil
		}
		for i < len(b.events) && b.events[i].Seq <= got {
			i++
		}
	}
	return nil
}

// ask asks for the parts of the events after one, from events[i] on. It
// returns the last event in the answer.
func (b *backlog) ask(ctx context.Context, i int, after queuefs.Seq) (last queuefs.Seq, err error) {
	uri := fmt.Sprintf("%s%s/%s?after=%d", b.f.site, PartsPath[1:], b.f.segment, after)
	err = b.f.client.Get(ctx, source.Request{URI: uri, Plain: true, Header: http.Header{}}, func(a *source.Answer) error {
		in := bufio.NewReaderSize(a.Body, 64<<10)
		for {
			var seq, text, payload int64
			line, err := in.ReadString('\n')
			if err == io.EOF && line == "" {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := fmt.Sscanf(line, "%d %d %d\n", &seq, &text, &payload); err != nil || text > maxPart || payload > maxPart {
				return fmt.Errorf("%s: no events: %.40q", uri, line)
			}
			for i < len(b.events) && int64(b.events[i].Seq) < seq {
				i++
			}
			var e *event
			if i < len(b.events) && int64(b.events[i].Seq) == seq {
				e = b.events[i]
			}
			if err := b.receive(in, e, text, payload); err != nil {
				return err
			}
			last = queuefs.Seq(seq)
		}
	})
	return last, err
}

// receive reads the parts of an event, nil for one not asked for.
func (b *backlog) receive(in io.Reader, e *event, text, payload int64) error {
	if text >= 0 {
		part, err := readPart(in, text, e != nil && e.Text == nil && e.File.Length == text)
		if err != nil {
			return err
		}
		if part != nil && sha256.Sum256(part) == e.File.SHA256 {
			e.Text = part
		}
	}
	if payload >= 0 {
		wanted := e != nil && !e.payload && e.Payload.Length == payload && b.memory+payload <= maxMemory
		part, err := readPart(in, payload, wanted)
		if err != nil {
			return err
		}
		if part != nil && sha256.Sum256(part) == e.Payload.SHA256 {
			e.Data, e.payload = part, true
			b.memory += payload
		}
	}
	return nil
}

// readPart reads a part, or passes over it.
func readPart(in io.Reader, n int64, wanted bool) ([]byte, error) {
	if !wanted {
		_, err := io.CopyN(io.Discard, in, n)
		return nil, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 1<<20)))
	if _, err := io.CopyN(buf, in, n); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// whole reports whether an event has its job file, and its payload where it has one.
func (e *event) whole() bool {
	return (e.Text != nil || e.Job != 0 && e.To == 0) && (e.From != 0 || e.Job == 0 || e.payload || e.Payload.Length > smallSize)
}
