package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/web"
)

// OwnerPath is where the owner of a home in a store is told (GET), taken (POST), and given
// up (DELETE).
const OwnerPath = "/owner"

// An Ownership is the role of a daemon in a home in a store.
type Ownership struct {
	Role  string    `json:"role"`             // "owner" or "standby"
	Owner string    `json:"owner"`            // its name
	URL   string    `json:"url,omitempty"`    // of the owner
	Left  bool      `json:"left,omitempty"`   // it has given the home up
	Batch uint64    `json:"batch"`            // the last one of the journal known here
	As    time.Time `json:"upTo,omitzero"`    // of a standby: it has all changes up to this time
	Quiet bool      `json:"silent,omitempty"` // the owner gives no signs of life
	Node  string    `json:"node,omitempty"`   // URL of this daemon

	// Finishing is the number of changes in progress before the owner gives the home up.
	Finishing int64 `json:"finishing,omitempty"`
}

// ownership returns the role of this daemon.
func (n *node) ownership() Ownership {
	st, _ := n.svc.Standing()
	o := Ownership{Role: "owner", Owner: st.Owner.Name, URL: st.Owner.URL, Left: st.Owner.Left, Batch: st.Batch, Node: n.URL}
	if st.Standby {
		o.Role, o.As, o.Quiet = "standby", st.As.UTC(), n.silent.Load()
	} else if n.changing.phase() != owning {
		o.Finishing = n.changing.count()
	}
	return o
}

// Routes implements room.
func (n *node) Routes() []web.Route {
	if n == nil {
		return nil
	}
	return []web.Route{
		{Method: http.MethodGet, Path: OwnerPath, Need: web.Anywhere(web.Read), Serve: n.tell},
		{Method: http.MethodPost, Path: OwnerPath, Need: web.Everywhere(web.Admin), Serve: n.take},
		{Method: http.MethodDelete, Path: OwnerPath, Need: web.Everywhere(web.Admin), Serve: n.give},
	}
}

func (n *node) tell(w http.ResponseWriter, _ *http.Request) error {
	return web.AnswerJSON(w, n.ownership())
}

// give gives the home up to a standby.
func (n *node) give(w http.ResponseWriter, r *http.Request) error {
	if err := n.handOver(r.Context()); err != nil {
		return err
	}
	return n.tell(w, r)
}

// take makes this daemon the owner. The owner is asked to give the home up first, with
// the rights of the caller; whatever it answers, the home is taken.
func (n *node) take(w http.ResponseWriter, r *http.Request) error {
	n.step.Lock()
	defer n.step.Unlock()
	for n.standby() {
		n.askFor(r)
		// A busy owner may write batch after batch before this daemon claims the next one.
		// Then it is asked again.
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		err := n.takeOver(ctx, false)
		cancel()
		if err != nil && (ctx.Err() == nil || r.Context().Err() != nil) {
			return n.unable(err)
		}
	}
	return n.tell(w, r)
}

// askFor asks the owner to give the home up, and follows until it has done so, has refused,
// falls silent, or its time is over; step is held.
func (n *node) askFor(r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), n.grace()+holdTime)
	defer cancel()
	st, _ := n.svc.Standing()
	asked := make(chan error, 1)
	go func() { asked <- n.ask(ctx, &st.Owner, r.Header.Get("Authorization")) }()
	tick := time.NewTicker(followEvery / 10)
	defer tick.Stop()
	var more bool
	var err error
	for err == nil {
		if more, err = n.svc.Advance(ctx); err != nil {
			break
		}
		if now, _ := n.svc.Standing(); now.Owner.Left {
			return
		}
		if more {
			select {
			case err = <-asked:
				asked = nil
			default:
			}
			continue
		}
		select {
		case err = <-asked:
			asked = nil
		case <-tick.C:
			if silent, e := n.vigil.Silent(ctx); e == nil && silent > n.quiet() {
				err = errNoOwner
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		n.log.Warn().Err(err).Str("url", st.Owner.URL).Msg("the owner was asked to give the home up, and did not")
	}
}

// askTime is for one attempt to take the home over.
const askTime = 2 * time.Second

// quiet is the silence of an owner, asked for the home, until it is taken all the same.
func (n *node) quiet() time.Duration {
	if n.TakeoverAfter > 0 {
		return min(quietTime, n.TakeoverAfter)
	}
	return quietTime
}

// ask asks the owner to give the home up. It answers once another daemon has taken it.
func (n *node) ask(ctx context.Context, owner *bucket.Owner, authorization string) error {
	if owner.URL == "" || n.silent.Load() {
		return errNoOwner
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, strings.TrimSuffix(owner.URL, "/")+OwnerPath, nil)
	if err != nil {
		return err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// metrics tell of the owner.
func (n *node) metrics() reading {
	return func(to samples) {
		st, _ := n.svc.Standing()
		to.gauge("cutie_owner", "1 if this daemon owns the home in the store, 0 if it is a standby.").add(truth(!st.Standby))
		to.gauge("cutie_journal_batch", "Number of the last batch of the journal in the store that is known here.").add(float64(st.Batch))
		to.counter("cutie_takeovers_total", "How often this daemon became the owner by taking over, since it began.").add(float64(n.taken.Load()))
		requests := to.counter("cutie_store_requests_total", "Requests to the store since this daemon began.", "operation")
		n.Store.Requests(func(of objects.Operation, done int64) { requests.add(float64(done), of.String()) })
		written, read := n.Store.Bytes()
		octets := to.counter("cutie_store_bytes_total", "Bytes of objects to the store and from it since this daemon began.", "direction")
		octets.add(float64(written), "written")
		octets.add(float64(read), "read")
		if st.Standby {
			to.gauge("cutie_standby_lag_seconds", "Time since this standby had all changes of the owner.").add(time.Since(st.As).Seconds())
			to.gauge("cutie_owner_silent", "1 if the owner gives no signs of life.").add(truth(n.silent.Load()))
			return
		}
		to.gauge("cutie_store_failing", "1 if the store takes no changes; the daemon goes on by itself when it does.").add(truth(n.hindered() != nil))
		to.gauge("cutie_image_failing", "1 if the last image of the home in the store was not made; it is tried again.").add(truth(st.Image.Err != nil))
		to.gauge("cutie_image_lag_records", "Records of the journal since the last image: a new machine reads them before it serves.").add(float64(st.Image.Since))
		if !st.Image.Made.IsZero() {
			to.gauge("cutie_image_timestamp_seconds", "When the last image was made.").add(float64(st.Image.Made.UnixMicro()) / 1e6)
		}
	}
}

// trouble is what is wrong with the home among its daemons, in words for everyone.
func (n *node) trouble() (said []string) {
	if n == nil {
		return nil
	}
	switch st, _ := n.svc.Standing(); {
	case !st.Standby && n.hindered() != nil:
		said = append(said, "Nothing can be changed: "+n.hindered().Error()+".")
	case !st.Standby && st.Image.Err != nil:
		said = append(said, "The last image of the home in the store was not made: see the log of the daemon.")
	case !st.Standby:
	case st.Owner.Left && n.TakeoverAfter == 0:
		said = append(said, "The home has no owner, so nothing can be changed: cutie failover standby makes a standby the owner.")
	case n.silent.Load():
		said = append(said, "The owner of the home is silent, so nothing can be changed until another daemon takes over.")
	}
	return said
}

// troubleTime is for how long the store of an owner may fail before it is told. A refusal is
// told at once.
const troubleTime = 2 * beatEvery

// hindered returns why the owner can make no changes now, in words for everyone.
func (n *node) hindered() error {
	if n == nil {
		return nil
	}
	st, _ := n.svc.Standing()
	switch t := st.Trouble; {
	case t == nil:
		return nil
	case errors.Is(t.Err, objects.ErrDenied):
		return errStoreDenies
	case time.Since(t.Since) > troubleTime:
		return errStoreAway
	}
	return nil
}

// ready tells supervisors the role of this daemon. A standby without an owner is ready for
// reading.
func (n *node) ready(w io.Writer) {
	if n == nil {
		return
	}
	st, _ := n.svc.Standing()
	switch {
	case !st.Standby:
		io.WriteString(w, "owner\n")
	case n.silent.Load():
		fmt.Fprintf(w, "standby, %v behind; the owner %s is silent\n", time.Since(st.As).Round(time.Millisecond), st.Owner.Name)
	default:
		fmt.Fprintf(w, "standby, %v behind\n", time.Since(st.As).Round(time.Millisecond))
	}
}
