package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// target is a daemon to be measured and one of its queues.
type target struct {
	network, address string
	base             *url.URL
	queue            string
	header           http.Header // of every request
}

// parseTarget reads the URL of a daemon, http://HOST[:PORT][/PATH] or unix:PATH
// for the socket in its home. The token may be empty (RFC 6750, 2.1).
func parseTarget(rawURL, queue, token string) (target, error) {
	t := target{queue: queue, header: http.Header{"User-Agent": {"cutie-bench"}}}
	if queue == "" {
		return target{}, errors.New("queue name is empty")
	}
	if token != "" {
		if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return target{}, errors.New("CUTIE_TOKEN: token has characters that no token has")
		}
		t.header.Set("Authorization", "Bearer "+token)
	}
	if path, ok := strings.CutPrefix(rawURL, "unix:"); ok && path != "" {
		t.network, t.address, t.base = "unix", path, &url.URL{Scheme: "http", Host: "localhost", Path: "/"}
		return t, nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return target{}, err
	}
	if u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return target{}, fmt.Errorf("url %q: not http://HOST[:PORT][/PATH] or unix:PATH", rawURL)
	}
	t.network, t.address, t.base = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), u.JoinPath("/")
	return t, nil
}

// runDaemon measures a daemon, phase by phase. Submitted jobs missing in a consume
// phase are errors in its result: another client has taken them, or they are
// lost.
func runDaemon(ctx context.Context, t task, to target) (report, error) {
	var r report
	p := newPayloads(t.size)
	seen := new(nameSet)
	pending := int64(0) // at least so many jobs
	for _, phase := range t.phases {
		res, err := t.run(ctx, phase, func(ctx context.Context, client int) (worker, error) {
			return to.connect(ctx, phase, p.source(client), seen, t.batch)
		})
		if err != nil {
			return r, err
		}
		switch phase {
		case submit:
			pending += res.Jobs
		case consume:
			t.missing(&res, pending)
			pending = max(pending-res.Jobs, 0)
		}
		r.Runs = append(r.Runs, res)
	}
	return r, nil
}

// missing counts the jobs not found by a consume phase, unless its time was over
// or it failed otherwise.
func (t task) missing(res *result, pending int64) {
	if t.jobs > 0 {
		pending = min(pending, t.jobs)
	}
	over := t.duration > 0 && res.Seconds >= t.duration.Seconds()
	if over || res.Errors > 0 || res.Jobs >= pending {
		return
	}
	res.Errors = pending - res.Jobs
	res.Failures = append(res.Failures, failure{"submitted job was not there to consume", res.Errors})
}
