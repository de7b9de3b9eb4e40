package buffers_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"cutie/queuefs/buffers"
)

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

func TestAccountGivesBackWhatItTook(t *testing.T) {
	p := &purse{100}
	var a buffers.Account
	a.Open(p, netip.Addr{})
	if err := errors.Join(a.Take(60), a.Take(30)); err != nil || p.left != 10 {
		t.Fatalf("got %v with %d left", err, p.left)
	}
	if err := a.Take(11); !errors.Is(err, buffers.ErrFull) || p.left != 10 || !a.Refused() {
		t.Errorf("more than there is: got %v with %d left", err, p.left)
	}
	a.Return(60)
	if a.Held() != 60 || p.left != 40 {
		t.Errorf("got %d held, %d left", a.Held(), p.left)
	}
	a.Give(1000)
	if a.Held() != 0 || p.left != 100 {
		t.Errorf("got %d held, %d left", a.Held(), p.left)
	}
	a.Take(5)
	a.Close()
	if p.left != 100 {
		t.Errorf("closed: got %d left", p.left)
	}
}

func TestNoAccountAllowsEverything(t *testing.T) {
	a := buffers.Of(context.Background())
	if err := a.Take(1 << 40); err != nil || a.Held() != 0 {
		t.Errorf("got %v, %d held", err, a.Held())
	}
	a.Give(1)
	a.Return(0)
	if err := new(buffers.Account).Take(1 << 40); err != nil {
		t.Error(err)
	}
	ctx := buffers.With(context.Background(), new(buffers.Account))
	if buffers.Of(ctx) == nil {
		t.Error("the account of a request is not found")
	}
}
