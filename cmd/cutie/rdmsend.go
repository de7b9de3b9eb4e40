package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"cutie/cmd/cutie/fault"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// sentAtOnce is how many octets begin no other object in a message; see
// [rdm.DefaultObjects] as well.
const sentAtOnce = 16 << 20

// A sending is a sequence of messages.
type sending struct {
	*rdmCall
	client *rdm.Client
	print  func(*soif.Object) error

	message                  bytes.Buffer // to be sent
	objects                  int          // in it
	messages                 int          // sent
	sent, accepted, rejected int          // objects
}

// send submits the objects in files, many in a message. Those before a mistake are sent.
func (r *rdmCall) send(ctx context.Context, client *rdm.Client) error {
	return printObjects(r.call, r.form, func(print func(*soif.Object) error) error {
		s := &sending{rdmCall: r, client: client, print: print}
		var refused error // by the server: no more is sent
		mistake := eachFile(r.call, r.Args[1:], func(name string, in io.Reader) error {
			text := soif.NewReader(in)
			_, err := readObjects(r.call, name, text, func(o *soif.Object) error {
				if s.objects == rdm.DefaultObjects || s.message.Len() >= sentAtOnce {
					if refused = s.flush(ctx); refused != nil {
						return refused
					}
				}
				return s.add(o)
			})
			if skipped := text.Skipped().String(); err == nil && skipped != "" {
				r.Warnf("%s: skipped: %s", name, skipped)
			}
			return err
		})
		if refused != nil {
			return refused
		}
		// A message without an object finds out whether the server takes it.
		if s.objects > 0 || s.messages == 0 && mistake == nil {
			refused = s.flush(ctx)
		}
		if mistake != nil && s.sent > 0 {
			r.Warnf("%d sent before the mistake, %d accepted", s.sent, s.accepted)
		} else if s.sent > 0 {
			r.Sayf("%d sent, %d accepted", s.sent, s.accepted)
		}
		if refused == nil && s.rejected > 0 {
			refused = fmt.Errorf("%d accepted, %d rejected", s.accepted, s.rejected)
		}
		return errors.Join(refused, mistake)
	})
}

// add adds an object to the message.
func (s *sending) add(o *soif.Object) error {
	if err := rdm.CheckPart(o); err != nil {
		return fault.Hint(err, "cutie rdm send writes the message itself, with --delete one that deletes")
	}
	s.objects++
	return soif.NewWriter(&s.message).Write(*o)
}

// flush sends the message, prints the answer, and counts the results.
func (s *sending) flush(ctx context.Context) error {
	typ := rdm.RDResponse
	if s.remove {
		typ = rdm.RDResponseDeleted
	}
	s.sent, s.messages = s.sent+s.objects, s.messages+1
	reply, err := s.client.Send(ctx, typ, s.client.CatalogID(s.catalog), &s.message)
	if err != nil {
		return restError(err)
	}
	s.message.Reset()
	s.objects = 0
	if reply.Mended != "" {
		s.Warnf("the server mended: %s", reply.Mended)
	}
	if err := errors.Join(printReply(reply, s.print), reply.Close()); err != nil {
		return err
	}
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
	s.accepted, s.rejected = s.accepted+accepted, s.rejected+rejected
	return nil
}
