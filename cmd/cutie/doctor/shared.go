package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A role is as much of the answer of /owner as is looked at; package daemon has it.
type role struct {
	Role  string    `json:"role"`
	Owner string    `json:"owner"`
	URL   string    `json:"url"`
	Left  bool      `json:"left"`
	Batch uint64    `json:"batch"`
	As    time.Time `json:"upTo"`
	Quiet bool      `json:"silent"`
	Node  string    `json:"node"`
}

// late is how far a standby may be behind its owner.
const late = 30 * time.Second

// shared looks at the daemons of a home in a store: the owner, and the ways between them.
func (e *examination) shared(ctx context.Context) {
	if e.daemon == nil {
		return
	}
	var own role
	status, err := get(ctx, e.daemon.HTTP, e.daemon.Base+"owner", &own)
	if status == http.StatusNotFound {
		return // the home is in its directory
	}
	if err != nil {
		e.fault("store", "see its log", "the daemon does not tell who owns the home: %v", err)
		return
	}
	before := len(e.findings)
	e.node(ctx, &own)
	take := "cutie failover standby --url " + own.Node + " makes this standby the owner"
	behind := e.Now.Sub(own.As)
	switch {
	case own.Role == "owner":
	case own.Left:
		e.fault("store", take, "the home has no owner: the last one, %s, has left, and no standby takes over by itself with --takeover-after 0", own.Owner)
	case own.Quiet:
		e.fault("store", "a standby takes over after --takeover-after; with 0: "+take, "the owner, %s, gives no signs of life, and changes are refused", own.Owner)
	case own.URL == "":
		e.fault("store", "start it with --node-url, or with this version", "the owner, %s, does not say where it answers, so changes are refused here", own.Owner)
	default:
		e.reached(ctx, "the owner, "+own.Owner+",", own.URL, "owner", "its --node-url is the address at which the other daemons and the clients reach it; look at the network between")
	}
	if own.Role != "owner" && !own.Left && behind > late {
		e.warn("store", "see its log, and look at the load here and at the way to the store", "this standby is %v behind its owner", behind.Round(time.Second))
	}
	switch {
	case len(e.findings) > before:
	case own.Role == "owner":
		e.ok("store", "this daemon owns the home, at batch %d", own.Batch)
	default:
		e.ok("store", "a standby, %v behind the owner %s", max(behind, 0).Round(time.Millisecond), own.Owner)
	}
}

// node looks whether others reach this daemon.
func (e *examination) node(ctx context.Context, own *role) {
	const cure = "--node-url is the address at which the other daemons and the clients reach this one"
	e.reached(ctx, "this daemon", own.Node, own.Role, cure)
	if loopback(own.Node) && !loopback(e.BaseURI) {
		e.warn("store", cure, "the other daemons of the home are led to %s, for this machine alone", own.Node)
	}
}

// reached asks a daemon at a URL for its role.
func (e *examination) reached(ctx context.Context, who, at, want, cure string) {
	var there role
	status, err := get(ctx, http.DefaultClient, strings.TrimSuffix(at, "/")+"/owner", &there)
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return // it answers, with a certificate not known on this machine
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return // it answers, and wants to know who asks
	case err == nil && there.Role == want && (want == "owner" || same(there.Node, at)):
		return
	case err == nil:
		err = fmt.Errorf("there is a %s of the home at %s", there.Role, there.Node)
	}
	e.fault("store", cure, "%s is not reached at %s: %v", who, at, err)
}

// same reports whether two URLs are of one place.
func same(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Host == y.Host && strings.Trim(x.Path, "/") == strings.Trim(y.Path, "/")
}
