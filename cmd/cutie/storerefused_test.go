package main_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs/objects/objectstest"
)

// A daemon does not begin with a store that it cannot use: it says why, and the way out.
func TestAStoreOfNoUseIsRefused(t *testing.T) {
	t.Parallel()
	lists := func(r *http.Request) bool { return r.Method == "GET" && r.URL.Query().Get("list-type") != "" }
	always := func(*http.Request) bool { return true }
	method := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == name && !lists(r) }
	}
	const rights = "hint: the credentials of AWS_ACCESS_KEY_ID"
	for name, c := range map[string]struct {
		fails        func(*http.Request) bool // nil: none does, and the store replaces what is there
		status       int
		code         string
		what, wayOut string
	}{
		"unknown key":       {always, 403, "InvalidAccessKeyId", "write an object: ", rights},
		"wrong secret":      {always, 403, "SignatureDoesNotMatch", "write an object: ", rights},
		"expired":           {always, 400, "ExpiredToken", "write an object: ", rights},
		"no right to put":   {method("PUT"), 403, "AccessDenied", "write an object: ", rights},
		"no right to get":   {method("GET"), 403, "AccessDenied", "read an object: ", rights},
		"no right to list":  {lists, 403, "AccessDenied", "list objects: ", rights},
		"no right to erase": {method("DELETE"), 403, "AccessDenied", "delete an object: ", rights},
		"no bucket":         {always, 404, "NoSuchBucket", "no such bucket", "hint: make the bucket first"},
		"another clock":     {always, 403, "RequestTimeTooSkewed", "the clock of this machine", "hint: run a time service"},
		"another region":    {always, 400, "AuthorizationHeaderMalformed", "another region", "hint: AWS_REGION is the region"},
		"unconditional":     {nil, 0, "", "does not honour conditional writes", "hint: cutie needs a store with conditional writes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &objectstest.Memory{}
			if c.fails == nil {
				m.Fault = func(objectstest.Request) objectstest.Fault { return objectstest.Lax }
			}
			store := objectstest.Handler(m)
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.fails == nil || !c.fails(r) {
					store.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/xml")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the store says it</Message></Error>", c.code)
			}))
			defer srv.Close()
			d, err := start(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", srv.URL)
			if err == nil {
				d.kill()
				t.Fatal("the daemon serves")
			}
			if !strings.Contains(err.Error(), c.what) || !strings.Contains(err.Error(), c.wayOut) {
				t.Errorf("got %v, want %q and %q", err, c.what, c.wayOut)
			}
			for name := range m.Objects() {
				if strings.HasPrefix(name, "home/journal/") {
					t.Errorf("there is %s", name)
				}
			}
		})
	}
}

// A daemon whose store is not reached says how it is reached.
func TestAStoreNotReachedIsTold(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprint(w, "<!DOCTYPE html>\n<html><body>another service</body></html>")
	})
	plain, secure, gone := httptest.NewServer(page), httptest.NewUnstartedServer(page), httptest.NewServer(page)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused certificates
	secure.StartTLS()
	gone.Close()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	const wayOut = "hint: --store-endpoint, or AWS_ENDPOINT_URL, "
	for name, c := range map[string]struct{ endpoint, what, wayOut string }{
		"another service":       {plain.URL, "not that of a store with the S3 API: Not Implemented", wayOut + "is the URL"},
		"nobody":                {gone.URL, "connection refused", wayOut + "is the URL"},
		"no TLS":                {strings.Replace(plain.URL, "http:", "https:", 1), "HTTP response to HTTPS client", wayOut + "is the URL"},
		"a certificate unknown": {secure.URL, "certificate", wayOut + "has a name that is in the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := start(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", c.endpoint)
			if err == nil {
				d.kill()
				t.Fatal("the daemon serves")
			}
			if !strings.Contains(err.Error(), c.what) || !strings.Contains(err.Error(), c.wayOut) {
				t.Errorf("got %v, want %q and %q", err, c.what, c.wayOut)
			}
		})
	}
}

// A daemon does not begin with a home that is damaged in its store: it names the object, and
// the way out.
func TestADamagedStoreIsToldWithAWayOut(t *testing.T) {
	t.Parallel()
	m := &objectstest.Memory{}
	srv := httptest.NewServer(objectstest.Handler(m))
	defer srv.Close()
	const damaged = "journal/00000000000000000001"
	m.Set("home/"+damaged, []byte("no batch"))
	d, err := start(t.TempDir(), filepath.Join(t.TempDir(), "home"), "--store", "s3://bucket/home", "--store-endpoint", srv.URL)
	if err == nil {
		d.kill()
		t.Fatal("the daemon serves")
	}
	if !strings.Contains(err.Error(), damaged+" ") || !strings.Contains(err.Error(), "hint: cutie store check ") {
		t.Errorf("got %v", err)
	}
}
