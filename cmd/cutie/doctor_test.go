package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/mirror"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// makeHome makes a home with a queue of one job, opened and closed in order.
func makeHome(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test", Identifier: "uc3:test"}))
	svc, err := queuefs.Open(dir, queuefs.Options{})
	must(t, err)
	if _, err := svc.CreateQueue(context.Background(), home.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	must(t, svc.Close())
	return dir
}

func examine(dir string, change func(*examination)) []durable.Finding {
	e := examination{settings: &settings{home: &dir}, conns: 10, now: time.Now(),
		finder: &finder{Home: dir, Warn: func(string, ...any) {}, Say: func(string, ...any) {}}}
	if change != nil {
		change(&e)
	}
	e.examine(context.Background())
	return e.findings
}

func TestAHealthyHome(t *testing.T) {
	t.Parallel()
	dir := makeHome(t)
	before := listOf(t, dir)
	for _, f := range examine(dir, nil) {
		if f.Level == durable.Faulty {
			t.Errorf("%+v", f)
		}
		if (f.Level == durable.Fine) != (f.Cure == "") {
			t.Errorf("%+v: a fault has a cure, and nothing else has one", f)
		}
	}
	if after := listOf(t, dir); after != before {
		t.Errorf("the home has changed from\n%s\nto\n%s", before, after)
	}
}

func listOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			b.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	must(t, err)
	return b.String()
}

// Each of these homes has one fault, which is named with its cure.
func TestBrokenHomes(t *testing.T) {
	write := func(t *testing.T, dir, name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		damage     func(t *testing.T, dir string)
		patient    func(*examination)
		level      durable.Level
		about      string
		text, cure string
	}{
		"no home": {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, nil, durable.Faulty, "home", "no such file", "cutie init"},
		"a file":  {func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); write(t, dir, "", "") }, nil, durable.Faulty, "home", "not a directory", "--home"},
		"no tag":  {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "0=cutie_0.3"))) }, nil, durable.Faulty, "home", "", "cutie check --rebuild"},
		"open":    {func(t *testing.T, dir string) { must(t, os.Chmod(dir, 0o755)) }, nil, durable.Warning, "home", "other users", "chmod 700"},
		"later version": {func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "0=cutie_0.3"), filepath.Join(dir, "0=cutie_0.4")))
			write(t, dir, "0=cutie_0.4", "Cutie 0.4\n")
		}, nil, durable.Faulty, "home", "Cutie version 0.4", "install the version"},
		"clock set back": {func(*testing.T, string) {}, func(p *examination) { p.now = p.now.Add(-400 * 24 * time.Hour) },
			durable.Faulty, "clock", "the last event of jobs is of 20", "set the clock right"},
		"no queue": {func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "queues/jobs"))) }, nil, durable.Faulty, "home", "queues/jobs: directory lost", "put the directory back, or cutie rmqueue --lost jobs"},
		"wrong tag": {func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "0=cutie_0.3"), filepath.Join(dir, "0=cutie_0.4")))
		}, nil, durable.Faulty, "home", "wrong tag", "cutie check --rebuild"},
		"no rights": {func(t *testing.T, dir string) {
			must(t, os.Chmod(filepath.Join(dir, "queues/jobs/queue-info.txt"), 0o400))
		}, nil, durable.Faulty, "home", "may not read and write 1 files", "chmod -R u+rwX"},
		"lost payload": {func(t *testing.T, dir string) {
			submit(t, dir)
			must(t, os.Remove(filepath.Join(dir, "queues/jobs/payload/j000000000001")))
		}, nil, durable.Faulty, "home", "1 jobs have no good payload, first jobs/j000000000001", "from a copy"},
		"short payload": {func(t *testing.T, dir string) {
			submit(t, dir)
			must(t, os.Truncate(filepath.Join(dir, "queues/jobs/payload/j000000000001"), 2))
		}, nil, durable.Faulty, "home", "1 jobs have no good payload, first jobs/j000000000001", "from a copy"},
		"damaged job file": {func(t *testing.T, dir string) {
			submit(t, dir)
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/pending/j000000000001"), []byte("nonsense"), 0o600))
		}, nil, durable.Faulty, "home", "queues/jobs/pending/j000000000001: ", "cutie check --repair"},
		"properties": {func(t *testing.T, dir string) { write(t, dir, "cutie-info.txt", "nonsense") }, nil,
			durable.Faulty, "home", "cutie-info.txt", "cutie check --repair"},
		"no socket": {func(t *testing.T, dir string) { write(t, dir, "cutie-socket", "") }, nil, durable.Faulty, "home", "cutie-socket is no socket", "move it away"},
		"no list": {func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "queues.txt")))
			must(t, os.Mkdir(filepath.Join(dir, "queues.txt"), 0o700))
		}, nil, durable.Faulty, "home", "queues.txt is no file", "cutie check --rebuild"},
		"a link": {func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, "queues/jobs/payload"), dir+".payload"))
			must(t, os.Symlink(dir+".payload", filepath.Join(dir, "queues/jobs/payload")))
		}, nil, durable.Faulty, "home", "queues/jobs/payload is no directory", "the directory itself"},
		"foreign files": {func(t *testing.T, dir string) {
			write(t, dir, "queues/jobs/pending/notes.txt", "")
			write(t, dir, "queues/jobs/pending/more/j000000000001", "")
		}, nil, durable.Warning, "home", "2 entries of ", "cutie check --repair"},
		"no pending jobs": {func(t *testing.T, dir string) {
			for range 5 {
				submit(t, dir)
			}
			must(t, os.RemoveAll(filepath.Join(dir, "queues/jobs/pending")))
		}, nil, durable.Faulty, "home", "2 problems more", "cutie check "},
		"set aside": {func(t *testing.T, dir string) { write(t, dir, "queues/jobs/corrupt/j1", "?") }, nil,
			durable.Warning, "home", "1 files", "from a copy"},
		"in use": {func(t *testing.T, dir string) {
			lock, err := home.Lock(dir)
			must(t, err)
			t.Cleanup(func() { lock.Close() })
		}, nil, durable.Faulty, "home", "in use by process", "stop it"},
		"lost journal": {func(t *testing.T, dir string) {
			svc, err := queuefs.Open(dir, queuefs.Options{})
			must(t, err)
			must(t, os.CopyFS(dir+".killed", os.DirFS(dir)))
			must(t, svc.Close())
			must(t, os.RemoveAll(dir))
			must(t, os.Rename(dir+".killed", dir))
			must(t, os.RemoveAll(filepath.Join(dir, "log/journal")))
		}, nil, durable.Faulty, "home", "journal", "accept-loss"},
		"certificate that ended": {nil, func(p *examination) { p.tlsCert, p.tlsKey = certificate(*p.home, -1, 0o600) },
			durable.Faulty, "certificate", "ended on", "renew"},
		"certificate that ends": {nil, func(p *examination) { p.tlsCert, p.tlsKey = certificate(*p.home, 5, 0o600) },
			durable.Warning, "certificate", "ends on", "renew"},
		"certificate of another": {nil, func(p *examination) {
			p.tlsCert, p.tlsKey = certificate(*p.home, 500, 0o600)
			p.Listen.BaseURI = "https://other.example.org/"
		}, durable.Faulty, "certificate", "other.example.org", "--base-uri"},
		"legible key": {nil, func(p *examination) { p.tlsCert, p.tlsKey = certificate(*p.home, 500, 0o644) },
			durable.Warning, "certificate", "others can read", "chmod 600"},
		"no original": {nil, func(p *examination) { p.Mirror.Sources = []mirror.Source{{URL: "http://127.0.0.1:9/"}} },
			durable.Faulty, "mirrors", "the original http://127.0.0.1:9/ does not answer", "cutie failover mirror"},
		"few files": {nil, func(p *examination) { p.conns = 1 << 40 }, durable.Warning, "limits", "open files", "LimitNOFILE"},
		"old clock": {nil, func(p *examination) { p.now = time.Unix(1, 0) }, durable.Faulty, "clock", "1970", "time service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := makeHome(t)
			if c.damage != nil {
				c.damage(t, dir)
			}
			found := examine(dir, c.patient)
			for _, f := range found {
				if f.Level == c.level && f.Path == c.about && strings.Contains(f.Text, c.text) && strings.Contains(f.Cure, c.cure) {
					return
				}
			}
			t.Errorf("found %+v", found)
		})
	}
}

// submit adds a job, and leaves its files exact.
func submit(t *testing.T, dir string) {
	t.Helper()
	svc, err := queuefs.Open(dir, queuefs.Options{})
	must(t, err)
	q, err := svc.Queue("jobs")
	must(t, err)
	s := q.Begin()
	defer s.Discard()
	u, err := s.Add(job.Meta{})
	must(t, err)
	_, err = u.Write([]byte("hello"))
	must(t, err)
	_, err = s.Commit(context.Background())
	must(t, err)
	must(t, svc.Close())
}

// A file of another user stops the daemon, and root sees nothing of it otherwise.
func TestFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := makeHome(t)
	must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { return os.Chown(name, 4711, 4711) }))
	must(t, os.Chown(filepath.Join(dir, "queues/jobs/queue-info.txt"), 0, 0))
	users := filepath.Join(filepath.Dir(dir), "users")
	must(t, os.WriteFile(users, nil, 0o600))
	var got []string
	for _, f := range examine(dir, func(p *examination) { p.Access.Users = users }) {
		if f.Level == durable.Faulty {
			got = append(got, f.Text+": "+f.Cure)
		}
	}
	want := []string{
		"1 files do not belong to user 4711, as the home does, first " + dir + "/queues/jobs/queue-info.txt of user 0: chown -R 4711:4711 " + dir + ", and run commands on it as that user",
		"user 4711, who owns the home, may not read " + users + ": chown 4711 " + users,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// certificate writes one for example.org with so many days left.
func certificate(dir string, days int, mode os.FileMode) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	of := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.org"},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(0, 0, days)}
	der, err := x509.CreateCertificate(rand.Reader, &of, &of, private.Public(), private)
	if err != nil {
		panic(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	cert, key = filepath.Join(filepath.Dir(dir), "cert.pem"), filepath.Join(filepath.Dir(dir), "key.pem")
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{cert, "CERTIFICATE", der}, {key, "PRIVATE KEY", secret}} {
		if err := os.WriteFile(f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), mode); err != nil {
			panic(err)
		}
	}
	return cert, key
}
