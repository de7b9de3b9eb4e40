package daemon

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/web"
)

// edited changes a users file.
func edited(t *testing.T, file string, change func(*access.Users) error) {
	t.Helper()
	if err := access.Edit(file, change); err != nil {
		t.Fatal(err)
	}
}

// tokenOfAnn is a request of ann, who was let in with a token.
func tokenOfAnn(secret string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hub", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	return r.WithContext(access.WithCaller(r.Context(), &access.Caller{Name: "ann"}))
}

func TestARegisterKnowsATokenByWhatItIs(t *testing.T) {
	read, err := access.ParseRights("read")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users.txt")
	secret, hash := access.NewToken()
	edited(t, file, func(u *access.Users) error {
		if err := u.Add(access.User{Name: "ann", Rights: read}); err != nil {
			return err
		}
		return u.AddToken(access.Token{Name: "laptop", User: "ann", Hash: hash})
	})
	g, err := openRegister(access.Options{Users: file})
	if err != nil {
		t.Fatal(err)
	}
	by := g.who(tokenOfAnn(secret))
	if !g.may(by, "jobs") {
		t.Errorf("%s may not read", by)
	}
	edited(t, file, func(u *access.Users) error { return u.RemoveToken("laptop") })
	if g.may(by, "jobs") {
		t.Errorf("%s may read by a token that was taken away", by)
	}
	// Who was let in a moment before asks a moment after.
	if late := g.who(tokenOfAnn(secret)); g.may(late, "jobs") {
		t.Errorf("%s may read by a token that was taken away before", late)
	}
	_, other := access.NewToken()
	edited(t, file, func(u *access.Users) error {
		return u.AddToken(access.Token{Name: "laptop", User: "ann", Hash: other})
	})
	if g.may(by, "jobs") {
		t.Errorf("%s may read by another token of the name", by)
	}
}

// A queue may be made between two looks: who asked for a topic of it when there
// was none is asked about before anything is delivered.
func TestATopicThatIsNotThereIsAskedForBySomebody(t *testing.T) {
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	svc.SetBaseURI("http://queue.test/")
	pub, err := publisher.New(svc, publisher.Options{BaseURI: "http://queue.test/"})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	fetch, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer fetch.Close()
	open, err := access.ParseRights("read:open")
	if err != nil {
		t.Fatal(err)
	}
	options := access.Options{Anonymous: open, Queue: func(name string) (string, bool) { return name, true }}
	gate, err := access.New(options)
	if err != nil {
		t.Fatal(err)
	}
	p, err := openPush(svc, pub, gate, options, fetch, zerolog.Nop(), PushOptions{
		Change: "changelist-notification", Framework: "framework-notification"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.hub.Close()
	create := func(id string) {
		t.Helper()
		if _, err := svc.CreateQueue(t.Context(), queuefs.QueueInfo{ID: id, CullingSize: -1, CullingAge: -1}); err != nil {
			t.Fatal(err)
		}
	}
	create("open")
	const topic = "http://queue.test/.well-known/resourcesync/closed/pending/change-notification.xml"
	r := httptest.NewRequest(http.MethodPost, "/hub", nil)
	caller, err := gate.Admit(http.Header{}, r, web.Need{Right: web.Read, Of: web.Body}, "", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	by, err := p.permit(http.Header{}, r.WithContext(access.WithCaller(r.Context(), caller)), topic)
	if err != nil {
		t.Fatal(err)
	}
	create("closed")
	if by == "" || p.still(by, topic) {
		t.Errorf("%q may have a topic that only others may read", by)
	}
}
