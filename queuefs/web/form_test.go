package web_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

// left is a budget with so many bytes left.
type left struct{ bytes int }

func (l *left) TakeMany(_ netip.Addr, n int) bool {
	if n > l.bytes {
		return false
	}
	l.bytes -= n
	return true
}

func (l *left) LeaveMany(_ netip.Addr, n int) { l.bytes += n }

func TestFormIsReadWithinItsLimits(t *testing.T) {
	const limit = 100_000
	long := "a=" + strings.Repeat("x", 50_000)
	for _, tt := range []struct {
		name, media, body string
		memory            int
		status            int // 0: it is read
	}{
		{"plain", "application/x-www-form-urlencoded", "a=1&b=%20", 1000, 0},
		{"with a parameter", "application/x-www-form-urlencoded; charset=utf-8", "a=1", 1000, 0},
		{"long", "application/x-www-form-urlencoded", long, 1 << 20, 0},
		{"too long", "application/x-www-form-urlencoded", long + long, 1 << 20, 413},
		{"without memory", "application/x-www-form-urlencoded", long, 20_000, 503},
		{"without memory for its parameters", "application/x-www-form-urlencoded", strings.Repeat("a&", 1000), 20_000, 503},
		{"of another kind", "application/json", "{}", 1000, 415},
		{"broken", "application/x-www-form-urlencoded", "%zz", 1000, 400},
	} {
		for _, known := range []bool{true, false} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.media)
			if !known {
				r.ContentLength = -1
			}
			var memory buffers.Account
			budget := &left{tt.memory}
			memory.Open(budget, netip.Addr{})
			got, err := web.Form(httptest.NewRecorder(), r.WithContext(buffers.With(r.Context(), &memory)), limit)
			if e, _ := web.ErrorOf(err); err != nil && e.Status != tt.status {
				t.Errorf("%s: got %v, want status %d", tt.name, err, tt.status)
			}
			if want, _ := url.ParseQuery(tt.body); (err == nil) != (tt.status == 0) || err == nil && got.Encode() != want.Encode() {
				t.Errorf("%s: got %.50q, %v", tt.name, got.Encode(), err)
			}
			if errors.Is(err, buffers.ErrFull) != (tt.status == http.StatusServiceUnavailable) {
				t.Errorf("%s: got %v", tt.name, err)
			}
			memory.Close()
			if budget.bytes != tt.memory {
				t.Errorf("%s: got %d bytes left, want all of %d", tt.name, budget.bytes, tt.memory)
			}
		}
	}
}
