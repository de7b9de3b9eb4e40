package home_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openDir opens a directory for the time of the test.
func openDir(t *testing.T, path string) *durable.Dir {
	t.Helper()
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestUnmade breaks Init off after each of its steps: what is left is no home, and
// another Init makes it one. What others have put into a directory is no such rest.
func TestUnmade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	unmade := func(want bool, when string) {
		t.Helper()
		if got, err := home.Unmade(dir); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", when, got, err, want)
		}
	}
	unmade(true, "nothing")
	for _, name := range []string{"lost+found", "log/lost+found"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		unmade(true, "the root of a volume: "+name)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "lost+found"), nil, 0o666))
	unmade(false, "a file with the name of a directory of the system")
	must(t, os.RemoveAll(dir))
	for _, name := range []string{"", "log", "queues"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o777))
		unmade(true, "directory "+name)
	}
	for _, name := range []string{"cutie-tmp-1", "cutie-info.txt"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o666))
		unmade(true, "file "+name)
	}
	for _, name := range []string{"foreign", "queues/jobs", "log/file", "0=cutie_0.3"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
		unmade(false, "file "+name)
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	must(t, os.Remove(filepath.Join(dir, "log")))
	unmade(false, "properties of somebody")
	must(t, home.Init(dir, home.ServiceInfo{}))
	unmade(false, "a home")
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o666))
	if got, err := home.Unmade(dir); err == nil || got {
		t.Errorf("a file: got %v, %v", got, err)
	}
}

// TestComplete makes a home of a directory without tag and properties, and leaves
// a whole home as it is.
func TestComplete(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	if err := home.CheckTag(d, nil); !errors.Is(err, home.ErrNoHome) {
		t.Errorf("got %v", err)
	}
	for _, want := range [][]string{{"0=cutie_0.3", "cutie-info.txt"}, nil} {
		var made []string
		must(t, home.Complete(d, time.Now(), func(p home.Problem) { made = append(made, p.Path) }))
		if !slices.Equal(made, want) {
			t.Errorf("got %q, want %q", made, want)
		}
	}
	must(t, home.CheckTag(d, nil))
	if r, err := home.ServiceFile(d).Read(); err != nil || r.Value.Scheme != home.Scheme || r.Value.Created.IsZero() {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestCompleteNamesTheTag(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	must(t, home.Complete(d, time.Now(), func(home.Problem) {}))
	must(t, os.Rename(filepath.Join(dir, "0=cutie_0.3"), filepath.Join(dir, "0=cutie_0.4")))
	var told []string
	must(t, home.Complete(d, time.Now(), func(p home.Problem) { told = append(told, p.String()) }))
	if want := []string{"0=cutie_0.4: wrong name; renamed to 0=cutie_0.3"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	tags, err := filepath.Glob(dir + "/0=*")
	must(t, err)
	if !slices.Equal(tags, []string{dir + "/0=cutie_0.3"}) {
		t.Errorf("tags %q", tags)
	}
	must(t, home.CheckTag(d, func(p home.Problem) { t.Error(p) }))
}

func TestQueuesUnderEitherName(t *testing.T) {
	for there, want := range map[string]string{"": "queues", "queues": "queues", "queue": "queue"} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, there), 0o777))
		q, err := home.OpenQueues(openDir(t, dir))
		must(t, err)
		if got := filepath.Base(q.Path()); got != want {
			t.Errorf("%q: got %q", there, got)
		}
		q.Close()
	}
}

// A wrong tag is told, and shuts no home (Cutie 0.3, 6.1).
func TestWrongTagIsTold(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		told  []string // parts of the problems
		opens bool
	}{
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\n"}, nil, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\r\n"}, nil, true},
		{map[string]string{"0=cutie_0.2": "Cutie/0.2\n"}, []string{"version 0.2"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.2\n"}, []string{"wrong tag", "version 0.2"}, true},
		{map[string]string{"0=cutie_0.3": ""}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "Dflat/0.19\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "C\x00tie/0.3\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=dflat_0.19": "Cutie/0.3\n"}, []string{"wrong tag"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.3\n", "0=dflat_0.19": "Dflat/0.19\n"}, []string{"more than one"}, true},
		{map[string]string{"0=cutie_0.3": "Cutie/0.9\n"}, nil, false},
		{map[string]string{"0=cutie_1.0": "?\n"}, nil, false},
		{map[string]string{"0=dflat_0.19": "Dflat/0.19\n"}, nil, false},
	} {
		d, err := durable.OpenDir(t.TempDir(), nil)
		must(t, err)
		for name, content := range tt.files {
			must(t, d.Replace(name, []byte(content)))
		}
		var told []string
		err = home.CheckTag(d, func(p home.Problem) { told = append(told, p.Text) })
		if (err == nil) != tt.opens {
			t.Errorf("%q: got %v", tt.files, err)
		}
		for i, part := range tt.told {
			if len(told) != len(tt.told) || !strings.Contains(told[i], part) {
				t.Errorf("%q: told %q, want %q", tt.files, told, tt.told)
			}
		}
		if len(tt.told) == 0 && len(told) > 0 {
			t.Errorf("%q: told %q", tt.files, told)
		}
		must(t, d.Close())
	}
}

// TestInitLeavesAHomeWithoutItsTagAlone takes the tag of a home away: another Init would
// give the service a new identity.
func TestInitLeavesAHomeWithoutItsTagAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	must(t, home.Init(dir, home.ServiceInfo{Identifier: "first"}))
	must(t, os.MkdirAll(filepath.Join(dir, "log/journal"), 0o700)) // as the first opening does
	must(t, os.Remove(filepath.Join(dir, "0=cutie_0.3")))
	before, err := os.ReadFile(filepath.Join(dir, "cutie-info.txt"))
	must(t, err)
	if err := home.Init(dir, home.ServiceInfo{Identifier: "second"}); !errors.Is(err, home.ErrNoHome) {
		t.Errorf("got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "cutie-info.txt"))
	if err != nil || string(after) != string(before) {
		t.Errorf("got %s, %v", after, err)
	}
}

// TestALockOutlivesItsFile removes and replaces cutie-lock, as rm and rsync do, while the
// home is held: nobody else gets it, and no foreign process is blamed.
func TestALockOutlivesItsFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"untouched": func(string) error { return nil },
		"removed":   os.Remove,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+"-1", []byte("1\n"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+"-1", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			held, err := home.Lock(dir)
			must(t, err)
			must(t, change(filepath.Join(dir, home.LockName)))
			for by, lock := range map[string]func(string) (*home.Held, error){"to write": home.Lock, "to look": home.LockToLook} {
				got, err := lock(dir)
				var locked *home.LockedError
				if !errors.As(err, &locked) {
					t.Fatalf("%s: got %v, %v", by, got, err)
				}
				if want := map[bool]int{true: os.Getpid()}[name == "untouched"]; locked.PID != want || locked.Dir != dir {
					t.Errorf("%s: got %+v, want process %d", by, locked, want)
				}
			}
			must(t, held.Close())
			again, err := home.Lock(dir)
			must(t, err)
			must(t, again.Close())
		})
	}
	if _, err := home.Lock(t.TempDir() + "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestLooksShareAHome: those who look keep writers out, and write no file.
func TestLooksShareAHome(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		look, err := home.LockToLook(dir)
		must(t, err)
		defer look.Close()
	}
	if got, err := home.Lock(dir); err == nil {
		t.Errorf("got %v beside those who look", got)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("got files %v, %v", names, err)
	}
}

// A child that is being started has a copy of each descriptor for a moment: a home that was
// let go of is free all the same.
func TestALockEndsWhileChildrenAreStarted(t *testing.T) {
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = exec.Command("/bin/true").Run() // absent or not, it forks
			}
		}
	}()
	for range 2000 {
		held, err := home.Lock(dir)
		if err != nil {
			t.Error(err)
			break
		}
		must(t, held.Close())
	}
	close(stop)
	<-stopped
}

// The same damage is told once, and again after the file was mended or found sound.
func TestTheSameDamageIsToldAgainAfterItWasMended(t *testing.T) {
	dir, told := t.TempDir(), 0
	r := home.NewReports(dir, func(home.Problem) { told++ })
	p := home.Problem{Path: "queues.txt", Text: "line 2"}
	write := func(text string) {
		must(t, os.WriteFile(filepath.Join(dir, "new"), []byte(text), 0o600))
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, p.Path)))
	}
	want := func(n int, when string) {
		t.Helper()
		r.Add(p)
		r.Add(p)
		if told != n {
			t.Errorf("%s: told %d times, want %d", when, told, n)
		}
	}
	write("bad")
	want(1, "at first")
	write("good")
	write("bad")
	want(2, "damaged again")
	must(t, os.Remove(filepath.Join(dir, p.Path)))
	p.Text = "missing"
	want(3, "lost")
	if !r.Any() {
		t.Error("nothing remembered")
	}
	r.Mended(p.Path)
	want(4, "lost again")
}

// A directory moved away is gone at once, and its files go as long as nobody says stop.
func TestFormerDirectoriesGoLater(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	dir, err := durable.OpenDir(at, nil)
	must(t, err)
	defer dir.Close()
	temp, err := dir.MakeSub(home.TempDir)
	must(t, err)
	defer temp.Close()
	const files = 10
	for range 2 {
		for _, name := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			must(t, os.MkdirAll(filepath.Join(at, home.QueuesDir, "jobs", name), 0o700))
		}
		must(t, home.MoveAway(dir, temp, home.QueuesDir))
		if _, err := dir.Stat(home.QueuesDir); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("it is there: %v", err)
		}
	}
	if err := home.MoveAway(dir, temp, home.QueuesDir); err != nil {
		t.Errorf("without one: %v", err)
	}
	left := func() (n int) {
		filepath.Walk(temp.Path(), func(_ string, info os.FileInfo, err error) error {
			if err == nil && len(info.Name()) == 1 {
				n++
			}
			return nil
		})
		return n
	}
	enough, asked := errors.New("enough"), 0
	stop := func() error {
		if asked++; asked > files/2 {
			return enough
		}
		return nil
	}
	if err := home.SweepFormer(temp, stop); !errors.Is(err, enough) || left() >= 2*files || left() < files {
		t.Errorf("stopped: %v, %d of %d left", err, left(), 2*files)
	}
	if err := home.SweepFormer(temp, func() error { return nil }); err != nil || left() != 0 {
		t.Errorf("then: %v, %d left", err, left())
	}
	if names, err := os.ReadDir(temp.Path()); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

var created = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func TestPropertiesReadAsTheyWereWritten(t *testing.T) {
	full := home.QueueInfo{ID: "ark+=1", Identifier: "ark:/1", Name: "Näme", Description: "two: lines%", CullingSize: 10, CullingAge: 0, VerifyOnRead: true,
		Paused: created, Closed: true, Acknowledge: job.AckTimeout, Dumps: "replica", Lease: time.Minute, MaxAttempts: 3, RetryDelay: time.Second, RetryFactor: 4, RetryMax: time.Minute,
		Limits: job.Limits{Pending: 1, Life: job.Unlimited}, Callback: "https://example.org/?x", Digests: digest.SetOf(digest.MD5), Created: created}
	for _, want := range []home.QueueInfo{full, home.NewQueue("jobs", created)} {
		if got, err := home.ParseQueue(want.ID, want.Text()); err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	service := home.ServiceInfo{Name: "n", Identifier: "uc3:x", Description: "d", Scheme: home.Scheme, BaseURI: "https://example.org/", SupportURI: "mailto:a@example.org",
		DefaultCatalog: "jobs", TombstoneAge: 24, Created: created}
	for _, want := range []home.ServiceInfo{service, {Scheme: home.Scheme, Created: created}} {
		if got, err := home.ParseService(want.Text()); err != nil || got != want {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestPropertiesThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"": "identifier", "no colon": "", "name: x\n": "identifier",
		"identifier: x\nlease: long\n":               "lease",
		"identifier: x\ncullingAgeThreshold: -2\n":   "cullingAgeThreshold",
		"identifier: x\nclosed: perhaps\n":           "closed",
		"identifier: x\npaused: today\n":             "paused",
		"identifier: x\nlimits: pending=all\n":       "pending=all",
		"identifier: x\nacknowledge: loudly\n":       "loudly",
		"identifier: x\ndigests: SHA-256 LENGTH-1\n": "LENGTH-1",
	} {
		if _, err := home.ParseQueue("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for _, text := range []string{"no colon", "tombstoneAge: 0\n", "tombstoneAge: 876001\n", "created: today\n"} {
		if _, err := home.ParseService([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	// A number too large for its type is refused, and not cut.
	for _, text := range []string{"lease: 9223372036854775807", "maxAttempts: 9223372036854775807", "retryDelay: 9223372036854775807", "retryFactor: 9223372036854775807", "retryMax: 9223372036854775807"} {
		info, err := home.ParseQueue("x", []byte("identifier: x\n"+text+"\n"))
		if err == nil {
			err = info.Check()
		}
		if !errors.Is(err, job.ErrBadName) {
			t.Errorf("%s: got %+v, %v", text, info, err)
		}
	}
}

func TestLeaseFor(t *testing.T) {
	for _, tt := range []struct {
		ack        job.Acknowledge
		lease      time.Duration
		asked, got time.Duration
	}{
		{job.AckNone, time.Minute, 0, 0},
		{job.AckNone, 0, time.Second, time.Second},
		{job.AckRequired, time.Minute, 0, time.Minute},
		{job.AckTimeout, 0, 0, home.DefaultLease},
		{job.AckTimeout, time.Minute, time.Hour, time.Hour},
	} {
		info := home.QueueInfo{Acknowledge: tt.ack, Lease: tt.lease}
		if got := info.LeaseFor(tt.asked); got != tt.got {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// watched is queue-info.txt of a queue in a new directory.
func watched(t *testing.T, text string) (f *home.File[home.QueueInfo], name string) {
	t.Helper()
	dir := t.TempDir()
	name = dir + "/queue-info.txt"
	must(t, os.WriteFile(name, []byte(text), 0o666))
	file := home.QueueFiles(nil)(openDir(t, dir), "jobs")
	return &file, name
}

// due calls Changed and checks whether it has read the file.
func due(t *testing.T, f *home.File[home.QueueInfo], want bool) home.Reading[home.QueueInfo] {
	t.Helper()
	r, got, err := f.Changed()
	if got != want || err != nil {
		t.Errorf("due: got %v, %v, want %v", got, err, want)
	}
	return r
}

func TestAFileIsReadAgainWhenItHasHeldStill(t *testing.T) {
	f, name := watched(t, "identifier: jobs\n")
	r, err := f.Read()
	must(t, err)
	f.Take(r)
	due(t, f, false)
	due(t, f, false)
	for _, text := range []string{"", "identifier: jobs\nname: x\n"} { // an editor
		must(t, os.WriteFile(name, []byte(text), 0o666))
		due(t, f, false)
	}
	r = due(t, f, true)
	if r.Value.Name != "x" || string(r.Text) != "identifier: jobs\nname: x\n" || r.Bad != "" || time.Since(r.Written) > time.Hour {
		t.Errorf("got %+v", r)
	}
	due(t, f, true) // until it is taken
	f.Take(r)
	due(t, f, false)
	f.Again()
	due(t, f, true)
}

func TestAFileThatCannotBeUsed(t *testing.T) {
	f, name := watched(t, "")
	r, err := f.Read()
	if err == nil || r.Text == nil || r.Written.IsZero() {
		t.Errorf("empty: got %+v, %v", r, err)
	}
	if _, got, _ := f.Changed(); got {
		t.Error("it has not held still")
	}
	r, got, err := f.Changed()
	if !got || err == nil {
		t.Errorf("empty: got %v, %v", got, err)
	}
	f.Take(r) // refused
	due(t, f, false)
	must(t, os.Remove(name))
	for range 2 {
		r, got, err = f.Changed()
		if !got || !errors.Is(err, fs.ErrNotExist) || r.Text != nil {
			t.Errorf("gone: got %+v, %v, %v", r, got, err)
		}
		f.Take(r)
	}
	if to, err := f.SetAside(); to != "" || err != nil {
		t.Errorf("got %q, %v", to, err)
	}
	must(t, os.Mkdir(name, 0o777))
	if r, err = f.Read(); err == nil || r.Text != nil {
		t.Errorf("directory: got %+v, %v", r, err)
	}
	must(t, os.Remove(name))
	// It comes back.
	must(t, os.WriteFile(name, []byte("identifier: jobs\n"), 0o666))
	due(t, f, false)
	due(t, f, true)
}

func TestSetKeepsTheRestOfTheFile(t *testing.T) {
	f, name := watched(t, "# mine\nIdentifier: jobs\nphone: 1\nname: old\n\nmore: x\n")
	r, err := f.Read()
	must(t, err)
	was, err := os.Stat(name)
	must(t, err)
	set, err := f.Set(r, anvl.Record{{Name: "name", Value: "old"}, {Name: "description"}})
	must(t, err)
	if now, err := os.Stat(name); err != nil || !os.SameFile(was, now) || string(set.Text) != string(r.Text) {
		t.Error("the file was written though nothing changed")
	}
	set, err = f.Set(r, anvl.Record{{Name: "name"}, {Name: "description", Value: "new"}})
	want := "# mine\nIdentifier: jobs\nphone: 1\ndescription: new\n\nmore: x\n"
	if text, _ := os.ReadFile(name); err != nil || string(set.Text) != want || string(text) != want || set.Value.Description != "new" || set.Value.Name != "" {
		t.Errorf("got %+v, %v, file\n%s", set, err, text)
	}
	f.Take(set)
	due(t, f, false)
	due(t, f, false)
}

// A bad file makes way for the properties known before.
func TestSetInThePlaceOfABadFile(t *testing.T) {
	f, name := watched(t, "garbage")
	r, err := f.Read()
	if err == nil {
		t.Fatal("it is read")
	}
	if _, err := f.Instead(r, nil, "why"); err == nil {
		t.Error("nothing is known, and has no identifier")
	}
	known, err := f.Instead(r, []byte("identifier: jobs\nname: x\n"), "why")
	if err != nil || known.Bad != "why" || known.Value.Name != "x" || !known.Written.Equal(r.Written) {
		t.Errorf("got %+v, %v", known, err)
	}
	f.Take(known) // the file as it is, not read again
	due(t, f, false)
	due(t, f, false)
	set, err := f.Set(known, nil)
	if text, _ := os.ReadFile(name); err != nil || set.Bad != "" || string(text) != "identifier: jobs\nname: x\n" {
		t.Errorf("got %+v, %v, file\n%s", set, err, text)
	}
	if aside, err := os.ReadFile(name[:len(name)-len("queue-info.txt")] + "corrupt/queue-info.txt"); err != nil || string(aside) != "garbage" {
		t.Errorf("set aside: got %q, %v", aside, err)
	}
}

func TestList(t *testing.T) {
	for _, tt := range []struct {
		text string
		ids  []string
		add  string // x
		drop string // ark+=1=x
	}{
		{"", []string{}, "x\n", ""},
		{"jobs", []string{"jobs"}, "jobs\nx\n", "jobs"},
		{"# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs\n", []string{"ark+=1=x", "jobs"}, "# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs\nx\n", "# mine\r\n\r\njobs\n"},
	} {
		ids, err := home.List(tt.text).Queues()
		if err != nil || ids == nil || !slices.Equal(ids, tt.ids) {
			t.Errorf("%q: got %q, %v", tt.text, ids, err)
		}
		if got := home.List(tt.text).Add("x"); string(got) != tt.add {
			t.Errorf("%q with x: got %q", tt.text, got)
		}
		if got := home.List(tt.text).Drop("ark+=1=x"); string(got) != tt.drop {
			t.Errorf("%q without ark+=1=x: got %q", tt.text, got)
		}
	}
}

// A line of no queue is an error, but does not keep others from being added or
// dropped.
func TestListWithAStrangeLine(t *testing.T) {
	l := home.List("one\ncutie-tmp\ntwo\n")
	if _, err := l.Queues(); !errors.Is(err, job.ErrBadName) || !strings.Contains(err.Error(), "queues.txt: line 2") {
		t.Errorf("got %v", err)
	}
	if got := l.Drop("one").Add("three"); string(got) != "cutie-tmp\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
}

func TestListOnDisk(t *testing.T) {
	d := openDir(t, t.TempDir())
	l, err := home.ReadList(d)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %q, %v", l, err)
	}
	must(t, l.Add("jobs").Write(d))
	if l, err = home.ReadList(d); err != nil || string(l) != "jobs\n" {
		t.Errorf("got %q, %v", l, err)
	}
}

func TestWaitsGrowToTheLongest(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		info           home.QueueInfo
		attempt        int
		failed, lapsed time.Duration
	}{
		{home.QueueInfo{}, 1, 10 * s, 0},
		{home.QueueInfo{}, 3, 40 * s, 0},
		{home.QueueInfo{}, 1 << 30, time.Hour, 0},
		{home.QueueInfo{RetryDelay: s}, 1, s, s},
		{home.QueueInfo{RetryDelay: s}, 4, 8 * s, 8 * s},
		{home.QueueInfo{RetryDelay: s, RetryFactor: 1}, 1 << 30, s, s},
		{home.QueueInfo{RetryDelay: 2 * s, RetryFactor: 3, RetryMax: 60 * s}, 3, 18 * s, 18 * s},
		{home.QueueInfo{RetryDelay: 2 * s, RetryFactor: 3, RetryMax: 60 * s}, 5, 60 * s, 60 * s},
		{home.QueueInfo{RetryDelay: 2 * time.Hour}, 1, time.Hour, time.Hour},
		{home.QueueInfo{RetryDelay: home.MaxLease, RetryFactor: 100, RetryMax: home.MaxLease}, 9, home.MaxLease, home.MaxLease},
	} {
		if got := [2]time.Duration{c.info.RetryFailed(c.attempt), c.info.RetryLapsed(c.attempt)}; got != [2]time.Duration{c.failed, c.lapsed} {
			t.Errorf("%+v, attempt %d: got %v want %v and %v", c.info, c.attempt, got, c.failed, c.lapsed)
		}
	}
}
