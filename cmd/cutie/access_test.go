package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// send makes a request whose answer must come, and returns it with its body.
func send(t *testing.T, c *http.Client, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, text, err := processes.Request(c, method, url, body, header...)
	must(t, err)
	return resp, text
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}

func TestUsersOfADaemonComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	run(t, "user", "add", "ann", "--rights", "read,submit:jobs", "--no-password", "--users", users)
	token := run(t, "token", "add", "ann", "--users", users)
	bearer := "Bearer " + strings.TrimSpace(token)
	d := processes.Serve(t, home, "--users", users)
	status := func(method, path string, header ...string) int {
		t.Helper()
		resp, _ := send(t, http.DefaultClient, method, d.URL+path, "", header...)
		return resp.StatusCode
	}
	for _, tt := range []struct {
		method, path string
		want         [2]int // of nobody, of ann
	}{
		{"GET", "livez", [2]int{200, 200}},
		{"GET", "", [2]int{401, 200}},
		{"GET", "state/jobs", [2]int{401, 200}},
		{"GET", ".well-known/resourcesync", [2]int{401, 200}},
		{"GET", ".well-known/resourcesync/jobs/pending/capabilitylist.xml", [2]int{401, 200}},
		{"POST", "content/jobs?filename=empty", [2]int{401, 201}},
		{"GET", "queues/jobs/payload/j000000000001", [2]int{401, 200}},
		{"POST", "consume/jobs", [2]int{401, 403}},
		{"PUT", "state/second", [2]int{401, 403}},
		{"GET", "nosuch", [2]int{401, 404}},
	} {
		got := [2]int{status(tt.method, tt.path), status(tt.method, tt.path, "Authorization", bearer)}
		if got != tt.want {
			t.Errorf("%s /%s: got %v, want %v", tt.method, tt.path, got, tt.want)
		}
	}

	// Numbers of a queue are for those who may read it.
	narrow := run(t, "token", "add", "ann", "--rights", "read:second", "--users", users)
	narrowly := "Bearer " + strings.TrimSpace(narrow)
	eventually(t, "new token known", func() bool { return status("GET", "", "Authorization", narrowly) == http.StatusOK })
	for who, want := range map[string]bool{bearer: true, narrowly: false} {
		if _, page := send(t, http.DefaultClient, "GET", d.URL, "", "Authorization", who); strings.Contains(page, "state/jobs") != want {
			t.Errorf("got %s, want the queue in it: %v", page, want)
		}
	}
	if got := status("GET", "state/jobs", "Authorization", narrowly); got != http.StatusForbidden {
		t.Errorf("another queue: got %d, want 403", got)
	}

	// Errors come in the form asked for, answers to somebody stay private.
	resp, text := send(t, http.DefaultClient, "GET", d.URL+"state?t=anvl", "")
	if got := len(resp.Header.Values("WWW-Authenticate")); got != 2 || !strings.Contains(text, "hTTPResponse: 401\n") {
		t.Errorf("got %d challenges and %s, want 2 and ANVL", got, text)
	}
	for _, tt := range []struct {
		method, who, message string
		status               int
	}{
		{"GET", "", "", 401},
		{"POST", "", "a message that nobody reads", 401},
		{"POST", "Bearer wrong", "", 401},
		{"DELETE", bearer, "", 405},
		{"POST", bearer, "@RDMHEADER { -\nRDM-Version{3}:\t1.0\nRDM-Type{19}:\trd-response-deleted\n}\n@DOCUMENT { http://a.example/\n}\n", 404},
	} {
		resp, text := send(t, http.DefaultClient, tt.method, d.URL+"rdm/incoming", tt.message, "Authorization", tt.who)
		if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != "application/x-rdm" || !strings.HasPrefix(text, "@RDMHEADER { -\n") ||
			!strings.Contains(text, "\nRDM-Error-Message{") || (resp.Header.Get("WWW-Authenticate") != "") != (tt.status == 401) {
			t.Errorf("%s /rdm/incoming of %q: got %d %v %s", tt.method, tt.who, resp.StatusCode, resp.Header, text)
		}
	}
	resp, _ = send(t, http.DefaultClient, "GET", d.URL+"queues/jobs/payload/j000000000001", "", "Authorization", bearer)
	if got, want := resp.Header.Get("Cache-Control"), "private, max-age=31536000, immutable"; got != want {
		t.Errorf("got Cache-Control %s, want %s", got, want)
	}
	if got := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "sandbox;") {
		t.Errorf("payload: got policy %s, want a sandbox", got)
	}
	// A page of another site that knows the credentials gets nowhere.
	if got := status("POST", "content/jobs", "Authorization", bearer, "Origin", "http://evil.example"); got != http.StatusForbidden {
		t.Errorf("other site: got %d, want 403", got)
	}
	if job, err := cutie(t, "show", "jobs", "j000000000001", "--home", home, "-t", "anvl"); err != nil || !strings.Contains(job, "status: pending\n") {
		t.Errorf("got %s, %v, want the job by the socket", job, err)
	}

	// Who is taken out of the file is refused; a broken file changes nothing.
	good := readFile(t, users)
	must(t, os.WriteFile(users, []byte("user ann"), 0o600))
	eventually(t, "broken file logged", func() bool { return strings.Contains(d.Stderr.String(), "line 1: neither user") })
	if got := status("GET", "state", "Authorization", bearer); got != http.StatusOK {
		t.Errorf("with a broken file: got %d, want 200", got)
	}
	must(t, os.WriteFile(users, []byte(good), 0o600))
	run(t, "user", "rm", "ann", "--users", users)
	eventually(t, "ann refused", func() bool { return status("GET", "state", "Authorization", bearer) == http.StatusUnauthorized })

	d.End(t)
	says(t, readFile(t, filepath.Join(home, "queues/jobs/pending/j000000000001")), "\nowner: ann\n")
	log := readFile(t, filepath.Join(home, "log/web-access.txt"))
	says(t, log, `"GET /state/jobs HTTP/1.1" 401 `, ` - ann [`, `"POST /consume/jobs HTTP/1.1" 403 `)
	if strings.Contains(log+d.Stderr.String(), strings.TrimSpace(token)) {
		t.Error("the token is in a log")
	}
}

// pki writes a certificate for 127.0.0.1 with a name, and returns it.
func pki(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		must(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert
}

func TestDaemonSpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := pki(t, dir, "first")
	// Connections end, so one place is enough for many.
	d := serve(t, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"), "--max-conns", "1")
	if !strings.HasPrefix(d.URL, "https://127.0.0.1:") {
		t.Fatalf("got %s, want https", d.URL)
	}
	trusting := func(c *x509.Certificate, edit func(*tls.Config)) *http.Client {
		pool := x509.NewCertPool()
		pool.AddCert(c)
		config := &tls.Config{RootCAs: pool}
		if edit != nil {
			edit(config)
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	}
	for range 3 {
		c := trusting(first, nil)
		for _, path := range []string{"state", "content/jobs"} {
			resp, _ := send(t, c, map[string]string{"state": "GET", "content/jobs": "POST"}[path], d.URL+path, "x")
			if resp.ProtoMajor != 2 || resp.StatusCode/100 != 2 {
				t.Errorf("%s: got %s %s, want HTTP/2 and success", path, resp.Proto, resp.Status)
			}
		}
		c.CloseIdleConnections()
	}
	old := trusting(first, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	if resp, err := old.Get(d.URL + "livez"); err == nil {
		resp.Body.Close()
		t.Error("TLS 1.1 is spoken")
	}

	second := pki(t, dir, "second")
	eventually(t, "new certificate", func() bool {
		c := trusting(second, nil)
		defer c.CloseIdleConnections()
		resp, err := c.Get(d.URL + "livez")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
	cmd := exec.Command("cutie", "status", "--url", d.URL)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(dir, "cert.pem"))
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "jobs\t3\t") {
		t.Errorf("got %s, %v, want three jobs", out, err)
	}
}

func TestProxyIsBelievedOnlyIfListed(t *testing.T) {
	t.Parallel()
	for _, proxies := range []string{"127.0.0.0/8", "10.0.0.0/8"} {
		home := filepath.Join(t.TempDir(), "home")
		d := processes.Serve(t, home, "--trusted-proxy", proxies, "--trusted-proxy", "192.0.2.1")
		send(t, http.DefaultClient, "GET", d.URL+"state", "", "X-Forwarded-For", "6.6.6.6, 198.51.100.7")
		d.End(t)
		want := map[string]string{"127.0.0.0/8": "198.51.100.7 - - [", "10.0.0.0/8": "127.0.0.1 - - ["}[proxies]
		if got := readFile(t, filepath.Join(home, "log/web-access.txt")); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s…", proxies, got, want)
		}
	}
}

func TestAccessLogOfADaemonRotates(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home, "--log-max", "1M", "--log-keep", "1")
	name := filepath.Join(home, "log/web-access.txt")
	eventually(t, "a log that has grown", func() bool {
		send(t, http.DefaultClient, "GET", d.URL+"livez?"+strings.Repeat("x", 2000), "", "User-Agent", strings.Repeat("\"", 2000), "Referer", strings.Repeat("\"", 2000))
		old, err := filepath.Glob(filepath.Join(home, "log/web-access-*.txt"))
		return err == nil && len(old) == 1
	})
	must(t, os.Rename(name, name+".moved"))
	must(t, d.Cmd.Process.Signal(syscall.SIGHUP))
	eventually(t, "a new log", func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
	send(t, http.DefaultClient, "GET", d.URL+"state?token=hidden", "")
	d.End(t)
	if got := readFile(t, name); !strings.Contains(got, `"GET /state?token=redacted HTTP/1.1" 200 `) || strings.Contains(got, "hidden") {
		t.Errorf("got %s, want the last request without its secret", got)
	}
	if got := d.Stderr.String(); strings.Contains(got, "hidden") {
		t.Errorf("got %s, want no secret in it", got)
	}
}

func TestPagesOfOthersCannotReachADaemonOfThisMachine(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users.txt")
	run(t, "user", "add", "ann", "--no-password", "--users", users)
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 421},
		{[]string{"--anonymous", "all"}, 421},
		{[]string{"--anonymous", "read,submit", "--users", users}, 421},
		{[]string{"--anonymous", "all", "--trusted-proxy", "127.0.0.1"}, 201},
	} {
		d := serve(t, tt.args...)
		req, err := http.NewRequest("POST", d.URL+"content/jobs", strings.NewReader("x"))
		must(t, err)
		req.Host = "evil.example:8080" // its name leads here by now
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%v: got %s, want %d", tt.args, resp.Status, tt.want)
		}
	}
}

// An image is started with its defaults by people who have not read on, and its port is open.
func TestImageLetsNobodyInWithoutAName(t *testing.T) {
	text, err := os.ReadFile("packaging/Containerfile")
	must(t, err)
	users, command := false, ""
	for line := range strings.Lines(string(text)) {
		users = users || strings.HasPrefix(line, "ENV ") && strings.Contains(line, "CUTIE_USERS=/")
		if strings.HasPrefix(line, "CMD ") || strings.HasPrefix(line, "ENTRYPOINT ") {
			command += line
		}
	}
	if !users || strings.Contains(command, "anonymous") || !strings.Contains(command, "serve") {
		t.Errorf("got users %t, %s, want a daemon with users", users, command)
	}
}

// All of a home is for its owner alone, and a home that is not is warned of.
func TestHomesAreForTheirOwner(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home, "--dump-period", "1h")
	if resp, text := send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "x"); resp.StatusCode != 201 {
		t.Fatalf("got %s, %s", resp.Status, text)
	}
	run(t, "--home", home, "set", "jobs", "--description", "x")
	run(t, "--home", home, "publish", "--now")
	d.End(t)
	if strings.Contains(d.Stderr.String(), "chmod") {
		t.Errorf("got %s", d.Stderr.String())
	}
	run(t, "--home", home, "next", "jobs")
	n := 0
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if n++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", strings.TrimPrefix(path, home), info.Mode())
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d files, %v", n, err)
	}

	must(t, os.Chmod(home, 0o750))
	d = processes.Serve(t, home)
	d.End(t)
	if !strings.Contains(d.Stderr.String(), "chmod 700") {
		t.Errorf("got %s, want a warning", d.Stderr.String())
	}
}

// A token that goes ends every wait begun with it, and no job is handed out for it.
func TestRevocationEndsWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	for _, args := range [][]string{{"ann", "--rights", "all"}, {"bob", "--rights", "all"}} {
		run(t, append([]string{"user", "add", "--no-password", "--users", users}, args...)...)
	}
	bearer := func(args ...string) string {
		token := run(t, append([]string{"token", "add", "--users", users}, args...)...)
		return "Bearer " + strings.TrimSpace(token)
	}
	ann, bob := bearer("ann", "--name", "gone"), bearer("bob")
	var fetched atomic.Bool
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fetched.Store(true)
		<-hang
	}))
	defer slow.Close()
	defer close(hang) // before it
	d := processes.Serve(t, home, "--users", users, "--allow-fetch", "127.0.0.1")
	resp, page := send(t, http.DefaultClient, "POST", d.URL+"uws/jobs/async", "a=1", "Authorization", ann, "Content-Type", "application/x-www-form-urlencoded")
	uws := resp.Request.URL.String()
	if resp.StatusCode != 200 {
		t.Fatalf("no job of UWS: %s, %s", resp.Status, page)
	}

	var all sync.WaitGroup
	begin := func(name, method, path, body string, want int, header ...string) {
		req, err := http.NewRequest(method, path, strings.NewReader(body))
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		req.Header.Set("Authorization", ann)
		all.Go(func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != want {
				t.Errorf("%s: got %s, %s, want %d", name, resp.Status, text, want)
			}
		})
	}
	begin("consume", "POST", d.URL+"consume/jobs?wait=60", "", 401)
	begin("events", "GET", d.URL+"events/jobs", "", 200)
	list := d.URL + ".well-known/resourcesync/jobs/pending/changelist.xml"
	resp, _ = send(t, http.DefaultClient, "GET", list, "", "Authorization", ann)
	begin("a document", "GET", list, "", 401, "Prefer", "wait=60", "If-None-Match", resp.Header.Get("Etag"))
	begin("UWS", "GET", uws+"?WAIT=50", "", 401)
	begin("a batch", "POST", d.URL+"content/jobs?type=batch-manifest", "#%checkm_0.7\n"+slow.URL+"/f | sha256 | "+strings.Repeat("0", 64)+" | 1 | | f\n#%eof\n", 401,
		"Content-Type", "text/checkm")
	// An upload whose body begins when it is let in, and ends when its token has gone.
	upload, body := io.Pipe()
	slowly := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	all.Go(func() {
		req, err := http.NewRequest("POST", d.URL+"content/jobs", upload)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", ann)
		req.Header.Set("Expect", "100-continue")
		resp, err := slowly.Do(req)
		if err != nil {
			t.Errorf("upload: %v", err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("upload: got %s, want 401", resp.Status)
		}
	})
	if _, err := io.WriteString(body, "the first of it"); err != nil {
		t.Fatal(err)
	}
	waiting := func() bool {
		_, text := send(t, http.DefaultClient, "GET", d.URL+"metrics", "", "Authorization", bob)
		return strings.Contains(text, "cutie_requests_waiting 4")
	}
	eventually(t, "four requests wait", waiting)
	eventually(t, "a file is fetched", func() bool { return fetched.Load() })
	run(t, "token", "rm", "gone", "--users", users)
	body.Close()
	// It is not known to the daemon yet, perhaps, and the consumer waits.
	if resp, text := send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "x", "Authorization", bob); resp.StatusCode != 201 {
		t.Errorf("submission: got %s, %s", resp.Status, text)
	}
	all.Wait()
	if _, state := send(t, http.DefaultClient, "GET", d.URL+"state/jobs?t=anvl", "", "Authorization", bob); !strings.Contains(state, "numPendingJobs: 2") {
		t.Errorf("got %s, want that nobody has got a job", state)
	}
}

const ownerID = 12345

// TestFilesOfRootBelongToTheOwnerOfTheHome runs commands of root on a home of another user,
// and serves it. Else the daemon of that user could not open these files. Root still reads
// what only root may read.
func TestFilesOfRootBelongToTheOwnerOfTheHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); errno != 0 {
		t.Skip("a build with cgo cannot keep the capabilities of root, and not enter this directory")
	}
	dir := t.TempDir()
	home, private := filepath.Join(dir, "home"), filepath.Join(dir, "private")
	must(t, os.Mkdir(home, 0o700))
	must(t, os.Chown(home, ownerID, ownerID))
	must(t, os.WriteFile(private, []byte("text"), 0o600))
	owned := func(by string) {
		t.Helper()
		err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if of := info.Sys().(*syscall.Stat_t); of.Uid != ownerID || of.Gid != ownerID {
				t.Errorf("after %s %s belongs to %d:%d", by, path, of.Uid, of.Gid)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, command := range []string{"init", "create jobs", "put jobs " + private, "status", "ls jobs", "get jobs", "set jobs --description new",
		"check", "check --repair", "check --rebuild", "publish --status", "publish --rebuild"} {
		args := append(strings.Fields(command), "--home", home)
		cmd := exec.Command("cutie", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		owned(command)
	}
	d, err := processes.Begin(dir, home)
	must(t, err)
	if out, err := exec.Command("cutie", "put", "jobs", private, "--home", home).CombinedOutput(); err != nil {
		t.Errorf("put: %v: %s", err, out)
	}
	d.End(t)
	owned("serve")
}
