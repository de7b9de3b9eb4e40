package rest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// behind is the last queue of a page with others after it; "" without any.
type behind string

// ref returns the reference of the next page.
func (b behind) ref(base state.Base, query url.Values) string {
	next := url.Values{}
	for name, values := range query {
		next[name] = values
	}
	next.Set("after", string(b))
	return base.Ref("state") + "?" + next.Encode()
}

// queuePage returns the queues after the one that the query names, up to its limit, in
// the order of queues.txt.
func queuePage(svc *queuefs.Service, query url.Values) (queues []*queuefs.Queue, next behind, err error) {
	queues = svc.Queues()
	if after := query.Get("after"); after != "" {
		q, err := svc.Queue(after)
		if err != nil {
			return nil, "", err
		}
		at := slices.Index(queues, q)
		if at < 0 { // it has come or gone since
			return nil, "", fmt.Errorf("%.60s: %w", after, queuefs.ErrNoQueue)
		}
		queues = queues[at+1:]
	}
	limit := state.MaxQueues
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > state.MaxQueues {
			return nil, "", fmt.Errorf("%w: limit %.40q is not a number from 1 to %d", queuefs.ErrBadName, text, state.MaxQueues)
		}
		limit = n
	}
	if len(queues) > limit {
		queues = queues[:limit]
		next = behind(queues[limit-1].ID())
	}
	return queues, next, nil
}
