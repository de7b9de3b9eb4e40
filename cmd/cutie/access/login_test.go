package access_test

import (
	"fmt"
	"testing"
	"time"
)

func TestWrongPasswordsAreLimitedAndRightOnesRemembered(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	status := func(password, from string) int {
		t.Helper()
		got, header := g.ask("GET /state", as("ann", password), from)
		if (header.Get("Retry-After") != "") != (got == 429) {
			t.Errorf("got %d with Retry-After %q", got, header.Get("Retry-After"))
		}
		return got
	}
	want := func(got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	for range 20 {
		want(status("nna", client), 200)
	}
	for range 10 {
		want(status("wrong", client), 401)
	}
	want(status("wrong", client), 429)
	want(status("nna", client), 200) // known already
	want(status("nna", "192.0.2.2"), 200)
	want(status("wrong", "192.0.2.2"), 401)

	g.now = g.now.Add(10 * time.Second)
	want(status("wrong", client), 401)
	want(status("wrong", client), 429)

	// It is forgotten in time, and then compared again.
	g.now = g.now.Add(5*time.Minute - 10*time.Second)
	for range 10 {
		want(status("wrong", client), 401)
	}
	want(status("nna", client), 429)
	want(status("nna", "2001:db8::1"), 200)

	// An IPv6 client has many addresses.
	for i := range 10 {
		want(status("wrong", fmt.Sprintf("2001:db8:1::%x", i)), 401)
	}
	want(status("wrong", "2001:db8:1::abcd"), 429)
	want(status("wrong", "2001:db8:2::1"), 401)
}

func TestGuessesAboutOneNameKeepNobodyElseOut(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna")+user(t, "bob", "read", "bbo"))
	want := func(name, password, from string, want int) {
		t.Helper()
		if got, _ := g.ask("GET /state", as(name, password), from); got != want {
			t.Errorf("%s with %s from %s: got %d, want %d", name, password, from, got, want)
		}
	}
	for range 10 {
		want("ann", "wrong", client, 401)
	}
	for range 1000 { // those that are refused count for nobody
		want("ann", "wrong", client, 429)
	}
	want("ann", "nna", client, 429)
	want("bob", "bbo", client, 200)
	want("ann", "nna", "192.0.2.2", 200)

	// Names that nobody can have are one.
	for i := range 10 {
		want(fmt.Sprint("?", i), "x", client, 401)
	}
	want("?", "x", client, 429)
}

func TestGuessesAboutManyNamesAreLimited(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	guess := func(name string) int {
		t.Helper()
		got, header := g.ask("GET /state", as(name, "wrong"), client)
		if retry := header.Get("Retry-After"); (retry == "1") != (got == 429) {
			t.Errorf("got %d with Retry-After %q", got, retry)
		}
		return got
	}
	for i := range 100 {
		if got := guess(fmt.Sprint("n", i)); got != 401 {
			t.Fatalf("guess %d: got %d, want 401", i, got)
		}
	}
	for range 20 { // a name whose turn does not come has lost none of its tries
		if got := guess("ann"); got != 429 {
			t.Errorf("got %d, want 429", got)
		}
	}
	for range 10 {
		g.now = g.now.Add(time.Second)
		if got := guess("ann"); got != 401 {
			t.Errorf("a second later: got %d, want 401", got)
		}
	}
	if got, _ := g.ask("GET /state", as("ann", "nna"), "192.0.2.2"); got != 200 {
		t.Errorf("from elsewhere: got %d, want 200", got)
	}
}

func TestPasswordInUseIsNoGuess(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	for range 30 {
		if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 200 {
			t.Fatalf("got %d, want 200", got)
		}
		for range 30 {
			g.ask("GET /state", as("ann", "wrong"), client)
		}
		g.now = g.now.Add(3 * time.Minute)
	}
	g.now = g.now.Add(3 * time.Minute) // it was not used for longer than it is remembered
	for range 40 {
		g.ask("GET /state", as("ann", "wrong"), client)
	}
	if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 429 {
		t.Errorf("got %d, want 429", got)
	}
}
