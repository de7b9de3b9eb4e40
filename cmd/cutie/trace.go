package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// secretHeaders are not shown by --debug. The token of a daemon is added later.
var secretHeaders = []string{"Cutie-Lease"}

// traced makes --debug show the requests that pass.
func (c *call) traced(next http.RoundTripper) http.RoundTripper {
	if c.debug == 0 {
		return next
	}
	return tracer{c, next}
}

// A tracer shows requests and answers (Cutie 0.3, 4: -D).
type tracer struct {
	*call
	next http.RoundTripper
}

// RoundTrip passes a request on.
func (t tracer) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	if t.debug > 1 {
		t.headers("> ", r.Header)
	}
	resp, err := t.next.RoundTrip(r)
	took := time.Since(start).Round(10 * time.Microsecond)
	if err != nil {
		t.warnf("%s %s: %v (%v)", r.Method, r.URL.RequestURI(), err, took)
		return nil, err
	}
	t.warnf("%s %s: %s (%v)", r.Method, r.URL.RequestURI(), resp.Status, took)
	if t.debug > 1 {
		t.headers("< ", resp.Header)
	}
	return resp, nil
}

func (t tracer) headers(mark string, h http.Header) {
	var lines []string
	for name, values := range h {
		if slices.Contains(secretHeaders, name) {
			values = []string{"…"}
		}
		lines = append(lines, mark+name+": "+strings.Join(values, ", "))
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Fprintln(screenOf(t.stderr), l)
	}
}
