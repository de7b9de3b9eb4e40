package daemon

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A requestCount counts what was answered. The zero value is ready to use, nil
// counts nothing.
type requestCount struct {
	mu     sync.Mutex
	count  map[answered]int64
	octets int64 // of bodies
}

type answered struct {
	method string
	status int
}

// countedMethods are those that are counted by their names; strangers cannot make it
// count anything else.
var countedMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch}

// add counts an answer of so many octets.
func (c *requestCount) add(method string, status int, octets int64) {
	if c == nil {
		return
	}
	if !slices.Contains(countedMethods, method) {
		method = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[answered]int64{}
	}
	c.count[answered{method, status}]++
	c.octets += octets
}

func (c *requestCount) expose(e *exposition) {
	c.mu.Lock()
	count, octets := maps.Clone(c.count), c.octets
	c.mu.Unlock()
	e.begin("cutie_http_requests_total", counter, "Requests that were answered; the status is 0 where the client had gone.")
	for _, a := range slices.SortedFunc(maps.Keys(count), func(a, b answered) int {
		if n := strings.Compare(a.method, b.method); n != 0 {
			return n
		}
		return a.status - b.status
	}) {
		e.sample(float64(count[a]), "method", a.method, "status", strconv.Itoa(a.status))
	}
	e.one("cutie_http_response_bytes_total", counter, "Octets of the bodies of answers.", float64(octets))
}
