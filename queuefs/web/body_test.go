package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"cutie/queuefs/buffers"
	"cutie/queuefs/web"
)

// form returns a form of parts with a file name and without, and a header line more.
func form(parts int, line string) string {
	var b strings.Builder
	for i := range parts {
		name := fmt.Sprintf("name=n%d", i)
		if i%2 == 0 {
			name += "; filename=f"
		}
		fmt.Fprintf(&b, "--b\r\nContent-Disposition: form-data; %s\r\n%s\r\nvalue %d\r\n", name, line, i)
	}
	return b.String() + "--b--\r\n"
}

// read returns how many parts there are, whole.
func read(p *web.Parts) (n int, err error) {
	for ; ; n++ {
		part, err := p.Next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if text, err := io.ReadAll(part); err != nil || string(text) != fmt.Sprint("value ", n) {
			return n, fmt.Errorf("part %d is %q, %w", n, text, err)
		}
	}
}

func TestPartsAreLimited(t *testing.T) {
	long := "X: " + strings.Repeat("x", web.MaxPartHeader) + "\r\n"
	for name, tt := range map[string]struct {
		text   string
		want   int
		status int
	}{
		"as many as allowed": {form(5, ""), 5, 0},
		"one more":           {form(6, ""), 5, http.StatusRequestEntityTooLarge},
		"a header":           {form(2, "X: "+strings.Repeat("x", web.MaxPartHeader-8<<10)+"\r\n"), 2, 0},
		"a long header":      {form(1, long), 0, http.StatusRequestEntityTooLarge},
		"many lines":         {form(1, strings.Repeat("X: y\r\n", 12_000)), 0, http.StatusRequestEntityTooLarge},
		"a long preamble":    {strings.Repeat("x\r\n", web.MaxPartHeader) + form(1, ""), 0, http.StatusRequestEntityTooLarge},
	} {
		n, err := read(web.NewParts(context.Background(), strings.NewReader(tt.text), "b", 5))
		var refused *web.Error
		errors.As(err, &refused)
		if n != tt.want || (err == nil) != (tt.status == 0) || err != nil && (refused == nil || refused.Status != tt.status) {
			t.Errorf("%s: got %d parts, %v, want %d and status %d", name, n, err, tt.want, tt.status)
		}
	}
}

// A part that nobody reads is passed over: its content is no header.
func TestPartsPassOverContent(t *testing.T) {
	text := "--b\r\n\r\n" + strings.Repeat("x", 3*web.MaxPartHeader) + "\r\n" + form(1, "")
	p := web.NewParts(context.Background(), strings.NewReader(text), "b", 5)
	for i := range 2 {
		if _, err := p.NextRaw(); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
	}
}

// A purse is a budget for one client.
type purse struct{ left int }

func (p *purse) TakeMany(_ netip.Addr, n int) bool {
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

func (p *purse) LeaveMany(_ netip.Addr, n int) { p.left += n }

func account(p *purse) context.Context {
	a := new(buffers.Account)
	a.Open(p, netip.Addr{})
	return buffers.With(context.Background(), a)
}

func TestLargeHeadersOfPartsTakeMemory(t *testing.T) {
	large := form(1, strings.Repeat("X: y\r\n", 5000))
	for _, tt := range []struct {
		text string
		left int
		want error
	}{{form(2, ""), 0, nil}, {large, 2 << 20, nil}, {large, 100 << 10, buffers.ErrFull}} {
		p := &purse{left: tt.left}
		if _, err := read(web.NewParts(account(p), strings.NewReader(tt.text), "b", 5)); err != tt.want {
			t.Errorf("with %d bytes: got %v, want %v", tt.left, err, tt.want)
		}
		if p.left != tt.left {
			t.Errorf("with %d bytes: got %d back", tt.left, p.left)
		}
	}
}

func TestReadAllTakesMemory(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 50_000)
	p := &purse{left: 2 << 20}
	ctx := account(p)
	got, err := web.ReadAll(ctx, bytes.NewReader(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d octets, %v", len(got), err)
	}
	if held := buffers.Of(ctx).Held(); held < len(want) || held > 3*len(want) {
		t.Errorf("%d octets take %d", len(want), held)
	}
	if _, err := web.ReadAll(account(&purse{left: 300_000}), bytes.NewReader(want)); err != buffers.ErrFull {
		t.Errorf("got %v, want %v", err, buffers.ErrFull)
	}
}

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
			budget := &purse{left: tt.memory}
			ctx := account(budget)
			got, err := web.Form(httptest.NewRecorder(), r.WithContext(ctx), limit)
			if e, _ := web.ErrorOf(err); err != nil && e.Status != tt.status {
				t.Errorf("%s: got %v, want status %d", tt.name, err, tt.status)
			}
			if want, _ := url.ParseQuery(tt.body); (err == nil) != (tt.status == 0) || err == nil && got.Encode() != want.Encode() {
				t.Errorf("%s: got %.50q, %v", tt.name, got.Encode(), err)
			}
			if errors.Is(err, buffers.ErrFull) != (tt.status == http.StatusServiceUnavailable) {
				t.Errorf("%s: got %v", tt.name, err)
			}
			buffers.Of(ctx).Close()
			if budget.left != tt.memory {
				t.Errorf("%s: got %d bytes left, want all of %d", tt.name, budget.left, tt.memory)
			}
		}
	}
}
