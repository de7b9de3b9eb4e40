package descriptions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"cutie/cmd/cutie/fault"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// sentAtOnce is how many octets begin no other object in a message; see
// [rdm.DefaultObjects] as well.
const sentAtOnce = 64 << 20

// send submits the objects in files, many in a message.
func (r *rdmCall) send(ctx context.Context, client *rdm.Client) error {
	typ := rdm.RDResponse
	if r.remove {
		typ = rdm.RDResponseDeleted
	}
	s := &sending{}
	var stop func()
	s.next, stop = iter.Pull2(r.objects())
	defer stop()
	s.advance()
	if s.bad != nil { // nothing is sent yet
		return s.bad
	}
	var rejected error // the answers are printed all the same
	err := printObjects(r.Call, r.form, func(print func(*soif.Object) error) error {
		// A message without an object finds out whether the server takes it.
		for sent := false; s.more || !sent; sent = true {
			reply, err := s.message(ctx, client, typ, client.CatalogID(r.catalog))
			if err != nil {
				return restError(err)
			}
			if reply.Mended != "" {
				r.Warnf("the server mended: %s", reply.Mended)
			}
			if err = errors.Join(printReply(reply, print), reply.Close()); err != nil {
				return err
			}
			if rejected = s.count(reply); reply.Status >= http.StatusBadRequest {
				break
			}
		}
		return nil
	})
	if s.sent > 0 {
		r.Sayf("%d sent, %d accepted", s.sent, s.accepted)
	}
	switch {
	case err != nil:
		return err
	case s.bad != nil:
		r.Warnf("%d sent before the mistake, %d accepted", s.sent, s.accepted)
		return errors.Join(rejected, s.bad)
	}
	return rejected
}

// objects goes through the objects in the files, up to a mistake.
func (r *rdmCall) objects() iter.Seq2[soif.Object, error] {
	return func(yield func(soif.Object, error) bool) {
		err := eachFile(r.Call, r.Args[2:], func(name string, in io.Reader) error {
			text := soif.NewReader(in)
			_, err := readObjects(r.Call, name, text, func(o *soif.Object) error {
				if err := rdm.CheckPart(o); err != nil {
					return fault.Hint(err, "cutie rdm send writes the message itself, with --delete one that deletes")
				}
				if !yield(*o, nil) {
					return errStopped
				}
				return nil
			})
			if skipped := text.Skipped().String(); err == nil && skipped != "" {
				r.Warnf("%s: skipped: %s", name, skipped)
			}
			return err
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(soif.Object{}, err)
		}
	}
}

var errStopped = errors.New("no more is wanted")

// A sending is a sequence of messages.
type sending struct {
	next   func() (soif.Object, error, bool)
	object soif.Object // to be sent next
	more   bool        // there is one
	bad    error       // the mistake after the last object

	sent, accepted, rejected int
}

// advance reads the next object.
func (s *sending) advance() {
	var ok bool
	s.object, s.bad, ok = s.next()
	s.more = ok && s.bad == nil
}

// message sends a message and returns the answer. Files are read while they are
// sent.
func (s *sending) message(ctx context.Context, client *rdm.Client, typ rdm.Type, catalog string) (*rdm.Reply, error) {
	in, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out.CloseWithError(s.write(out))
	}()
	reply, err := client.Send(ctx, typ, catalog, in)
	in.Close() // a server may answer before it has read all
	<-done
	return reply, err
}

// write writes as many objects as one message may have.
func (s *sending) write(out io.Writer) error {
	counted := &counter{w: out}
	w := soif.NewWriter(counted)
	for n := 0; s.more && n < rdm.DefaultObjects && counted.n < sentAtOnce; n++ {
		if err := w.Write(s.object); err != nil {
			return err
		}
		s.sent++
		s.advance()
	}
	return nil
}

// count adds the results of a message, and returns the error if an object was
// rejected up to now.
func (s *sending) count(reply *rdm.Reply) error {
	if reply.Status >= http.StatusBadRequest || reply.Error != "" {
		err := error(&web.Error{Status: max(reply.Status, http.StatusBadRequest), Message: reply.Error})
		if s.accepted > 0 {
			err = fmt.Errorf("%w; %d objects were accepted before", err, s.accepted)
		}
		return err
	}
	var accepted, rejected int
	if _, err := fmt.Sscanf(reply.Interpret, "%d accepted, %d rejected", &accepted, &rejected); err != nil {
		return fmt.Errorf("the server does not say how many objects it accepted, but %q", reply.Interpret)
	}
	s.accepted += accepted
	if s.rejected += rejected; s.rejected > 0 {
		return fmt.Errorf("%d accepted, %d rejected", s.accepted, s.rejected)
	}
	return nil
}

// A counter counts what goes through it.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
