package callback

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// An outbox has the waiting changes after an event. Its file has a line for the
// event and one for each change:
//
//	READ TIME
//	SEQUENCE TIME KIND JOB
type outbox struct {
	read    queuefs.Seq
	readAt  time.Time // zero: there is no file
	changes []change
}

func (s *Sender) outbox(queue string) durable.Sealed { return outboxIn(s.dir, queue) }

func outboxIn(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: queue + outboxExt, Kind: "outbox of queue " + queue, Max: maxFile}
}

func (o *outbox) contents() []byte {
	dst := append([]byte(position(o.read, o.readAt)), '\n')
	for _, c := range o.changes {
		dst = append(c.append(dst), '\n')
	}
	return dst
}

func (c *change) append(dst []byte) []byte {
	dst = append(append(dst, position(c.seq, c.at)...), ' ')
	dst = append(append(dst, c.kind.String()...), ' ')
	return c.job.Append(dst)
}

// readOutbox reads the outbox of a queue, if there is one. A damaged one is set
// aside.
func (s *Sender) readOutbox(queue string) (outbox, error) {
	file := s.outbox(queue)
	contents, err := file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return outbox{}, nil
	}
	var o outbox
	if err == nil {
		if o, err = parseOutbox(string(contents)); err != nil {
			err = fmt.Errorf("%w: %w", durable.ErrDamaged, err)
		}
	}
	if !errors.Is(err, durable.ErrDamaged) {
		return o, err
	}
	to, e := file.SetAside()
	if e != nil {
		return outbox{}, errors.Join(err, e)
	}
	s.report(file.Name, "%v; moved to %s", err, to)
	return outbox{}, nil
}

func parseOutbox(text string) (o outbox, err error) {
	head, rest, _ := strings.Cut(text, "\n")
	number, at, _ := strings.Cut(head, " ")
	if o.read, o.readAt, err = parseEvent(number, at); err != nil {
		return outbox{}, err
	}
	last := queuefs.Seq(0)
	for line := range strings.Lines(rest) {
		c, err := parseChange(strings.TrimSuffix(line, "\n"))
		if err == nil && (c.seq > o.read || c.seq <= last) {
			err = errors.New("out of order")
		}
		if err != nil {
			return outbox{}, fmt.Errorf("line %.100q: %w", line, err)
		}
		o.changes, last = append(o.changes, c), c.seq
	}
	return o, nil
}

func parseChange(line string) (c change, err error) {
	w := strings.Split(line, " ")
	if len(w) != 4 {
		return c, errors.New("not four words")
	}
	if c.seq, c.at, err = parseEvent(w[0], w[1]); err != nil {
		return c, err
	}
	if c.kind, err = queuefs.ParseKind(w[2]); err == nil {
		c.job, err = queuefs.ParseJobID(w[3])
	}
	if err == nil && string(c.append(nil)) != line {
		err = errors.New("not as it is written")
	}
	return c, err
}

// parseEvent reads number and time of an event.
func parseEvent(seq, at string) (queuefs.Seq, time.Time, error) {
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return 0, time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	return queuefs.Seq(n), t, err
}

// maxDead is the largest Q.dead, in bytes; a larger one becomes Q.dead.old.
const maxDead = 8 << 20

// bury writes changes into Q.dead. They are on stable storage when bury returns.
func (s *Sender) bury(queue string, changes []change, reason string) (err error) {
	name := queue + deadExt
	if st, err := s.dir.Stat(name); err == nil && st.Size > maxDead {
		if err := s.dir.Rename(name, s.dir, name+oldExt); err != nil {
			return err
		}
	}
	f, err := s.dir.Append(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var text []byte
	now := queuefs.FormatTime(s.Now())
	for _, c := range changes {
		text = fmt.Appendf(c.append(append(text, now+" "...)), " %q\n", reason)
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := s.dir.SyncFile(f); err != nil {
		return err
	}
	return s.dir.Sync()
}
