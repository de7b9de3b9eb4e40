package callback

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// An outbox is what waited when an event had been read. Its file has a line
// for each change, and a last one without which it does not count:
//
//	cutie outbox 1 READ TIME
//	SEQUENCE TIME KIND JOB
//	SEQUENCE TIME phase SUBJECT [PHASE]
//	end N
type outbox struct {
	read    queuefs.Seq
	readAt  time.Time // zero: there is no file
	changes []change
}

const outboxTitle = "cutie outbox 1 "

// maxFile is the most octets of a file that is read back.
const maxFile = 256 << 20

func (o *outbox) file() []byte {
	dst := fmt.Appendf(nil, "%s%d %s\n", outboxTitle, o.read, queuefs.FormatTime(o.readAt))
	for _, c := range o.changes {
		dst = append(c.append(dst), '\n')
	}
	return fmt.Appendf(dst, "end %d\n", len(o.changes))
}

func (c *change) append(dst []byte) []byte {
	dst = append(strconv.AppendUint(dst, uint64(c.seq), 10), ' ')
	dst = append(append(dst, queuefs.FormatTime(c.at)...), ' ')
	dst = append(append(dst, c.kind.String()...), ' ')
	if c.kind != queuefs.Phase {
		return c.about.job.Append(dst)
	}
	if dst = append(dst, c.about.subject...); c.phase != "" {
		dst = append(append(dst, ' '), c.phase...)
	}
	return dst
}

// readOutbox reads the outbox of a queue, which may be absent. A damaged one
// is set aside.
func (s *Sender) readOutbox(queue string) (outbox, error) {
	name := queue + outboxExt
	data, err := s.dir.ReadFile(name, nil, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return outbox{}, nil
	}
	if err != nil {
		return outbox{}, err
	}
	o, err := parseOutbox(string(data))
	if err != nil {
		return outbox{}, s.setAside(name, err)
	}
	return o, nil
}

func parseOutbox(text string) (o outbox, err error) {
	head, rest, _ := strings.Cut(text, "\n")
	head, ok := strings.CutPrefix(head, outboxTitle)
	w := strings.Split(head, " ")
	if !ok || len(w) != 2 {
		return outbox{}, errors.New("not an outbox")
	}
	if o.read, o.readAt, err = parseEvent(w[0], w[1]); err != nil {
		return outbox{}, err
	}
	for line := range strings.Lines(rest) {
		if rest == line {
			if line != fmt.Sprintf("end %d\n", len(o.changes)) {
				break
			}
			return o, nil
		}
		rest = rest[len(line):]
		c, err := parseChange(strings.TrimSuffix(line, "\n"))
		if n := len(o.changes); err == nil && (c.seq > o.read || n > 0 && c.seq <= o.changes[n-1].seq) {
			err = errors.New("out of order")
		}
		if err != nil {
			return outbox{}, fmt.Errorf("line %.100q: %w", line, err)
		}
		o.changes = append(o.changes, c)
	}
	return outbox{}, errors.New("cut off")
}

func parseChange(line string) (c change, err error) {
	w := strings.Split(line, " ")
	if len(w) != 4 && len(w) != 5 {
		return c, errors.New("not four or five words")
	}
	if c.seq, c.at, err = parseEvent(w[0], w[1]); err != nil {
		return c, err
	}
	if c.kind, err = queuefs.ParseKind(w[2]); err != nil {
		return c, err
	}
	switch {
	case c.kind != queuefs.Phase:
		c.about.job, err = queuefs.ParseJobID(w[3])
	case len(w) == 5:
		c.about.subject, c.phase = w[3], w[4]
	default:
		c.about.subject = w[3]
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

// maxDead is how long Q.dead grows, in octets, before it becomes Q.dead.old.
const maxDead = 8 << 20

// bury writes down changes that will not be delivered. It is on stable storage
// when bury returns.
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
