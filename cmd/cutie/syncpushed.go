package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/hub"
)

// A listener has the hubs of a Source tell of changes (WebSub).
type listener struct {
	addr     string // to listen on; "": no listener
	callback string // URL of addr as hubs see it; "": http://ADDR/
}

// topicTick is the time between two looks at leases that end.
const topicTick = time.Minute

// listen subscribes to the sets of a copy. Where a hub is missing, or refuses, the
// copy waits for changes as it does without.
func (l *listener) listen(ctx context.Context, c *call, o *syncOptions, copied *destination.Copy) (stop func() error, err error) {
	in, err := net.Listen("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	callback := l.callback
	if callback == "" {
		callback = "http://" + in.Addr().String() + "/"
	}
	s, err := hub.NewSubscriber(hub.SubscriberOptions{Callback: callback, Client: copied.HTTP(),
		Receive: func(string, []byte) error { return nil }, // the answer to it wakes
		Report:  func(err error) { o.Tell(err.Error()) }})
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		copied.Wake() // also for a verification: nobody told of changes before it
	})
	server := &http.Server{Handler: answer, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(in); !errors.Is(err, http.ErrServerClosed) {
			o.Tell(err.Error())
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	if subscribed(ctx, c, s, copied.Topics()) {
		copied.Expect()
	}
	wg.Go(func() { tick(ctx, s) })
	return func() error {
		cancel()
		end, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		err := s.Unsubscribe(end)
		if server.Shutdown(end) != nil {
			err = errors.Join(err, server.Close())
		}
		wg.Wait()
		return err
	}, nil
}

// subscribed subscribes to all topics, and reports whether it could.
func subscribed(ctx context.Context, c *call, s *hub.Subscriber, topics []string) bool {
	for _, topic := range topics {
		if _, err := s.Subscribe(ctx, topic); err != nil {
			c.Warnf("%v; changes are waited for", err)
			return false
		}
	}
	return len(topics) > 0
}

func tick(ctx context.Context, s *hub.Subscriber) {
	t := time.NewTicker(topicTick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.Tick(ctx)
		case <-ctx.Done():
			return
		}
	}
}
