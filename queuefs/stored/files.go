package stored

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/image"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/record"
)

// A large payload, or a large result, is an object files/SHA256-CLAIM-RANDOM, with the number of
// the claim of its owner. So it can be found by its digest after its record is
// gone, and no name is used twice.
const prefix = "files/"

// Keep puts a temporary file with a digest into the store, before a record names it. It
// returns the name of the file from now on, after an error too.
func (h *Home) Keep(ctx context.Context, name string, sum [sha256.Size]byte) (string, error) {
	if h == nil {
		return name, nil
	}
	kept := fmt.Sprintf("%s%x-%d-%s", durable.TempPrefix, sum, h.Log.Claim(), rand.Text())
	if err := h.temp.Rename(name, h.temp, kept); err != nil {
		return name, err
	}
	f, err := h.temp.Open(kept)
	if err != nil {
		return kept, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return kept, err
	}
	return kept, h.again(ctx, func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return h.store.Put(ctx, objectOf(kept), f, st.Size())
	})
}

// objectOf returns the name of the object of a temporary file.
func objectOf(temp string) string { return prefix + strings.TrimPrefix(temp, durable.TempPrefix) }

// parseObject reads the digest and the claim in the name of an object; ok is false if it is
// none of objectOf.
func parseObject(name string) (sum [sha256.Size]byte, claim uint64, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, prefix), "-")
	if len(parts) != 3 || len(parts[0]) != hex.EncodedLen(len(sum)) {
		return sum, 0, false
	}
	_, err := hex.Decode(sum[:], []byte(parts[0]))
	if _, e := fmt.Sscanf(parts[1], "%d", &claim); err != nil || e != nil {
		return sum, 0, false
	}
	return sum, claim, true
}

// pause comes before the second attempt at a request; it doubles.
const pause = 50 * time.Millisecond

// again repeats a request for a file until the patience is over.
func (h *Home) again(ctx context.Context, try func() error) error {
	end := time.Now().Add(h.patience)
	for wait := pause; ; wait *= 2 {
		err := try()
		damage := new(image.DamageError)
		if err == nil || errors.Is(err, objects.ErrNotExist) || errors.As(err, &damage) || errors.Is(err, fs.ErrClosed) || time.Now().Add(wait).After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// fetchers is how many files are fetched at once.
const fetchers = 8

// Fetch brings temporary files of these names from the store, unless the directory has
// them.
func (h *Home) Fetch(ctx context.Context, names []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	fetched := false
	for _, name := range names {
		if _, err := h.temp.Stat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fetched = true
		g.Go(func() error {
			tmp, err := h.fetch(ctx, objectOf(name))
			if err != nil {
				return fmt.Errorf("payload or result that the journal names: %w", err)
			}
			return h.temp.Rename(tmp, h.temp, name)
		})
	}
	err := g.Wait()
	if err == nil && fetched && h.Known == nil {
		err = h.temp.SyncFS() // after a crash they are not fetched again
	}
	return err
}

// Find brings a payload or result with a digest from the store, and returns its temporary
// name. The error is an [*image.DamageError] if none in the store verifies.
func (h *Home) Find(sum [sha256.Size]byte) (temp string, err error) {
	ctx := h.Images.ctx
	start := fmt.Sprintf("%s%x-", prefix, sum)
	var names []string
	err = h.again(ctx, func() (err error) {
		names, err = h.store.List(ctx, start, "", 10)
		return err
	})
	if err == nil && len(names) == 0 {
		err = &image.DamageError{Name: start, Text: "is missing"}
	}
	for _, name := range names { // one of them is enough
		if temp, err = h.fetch(ctx, name); err == nil {
			return temp, nil
		}
	}
	return "", err
}

// fetch brings an object into a temporary file, and verifies its digest.
func (h *Home) fetch(ctx context.Context, name string) (tmp string, err error) {
	err = h.again(ctx, func() error {
		tmp, err = h.fetchOnce(ctx, name)
		return err
	})
	if errors.Is(err, objects.ErrNotExist) {
		err = &image.DamageError{Name: name, Text: "is missing"}
	}
	return tmp, err
}

func (h *Home) fetchOnce(ctx context.Context, name string) (tmp string, err error) {
	body, err := h.store.Get(ctx, name, 0)
	if err != nil {
		return "", err
	}
	defer body.Close()
	f, tmp, err := h.temp.Temp()
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			h.temp.Remove(tmp)
		}
	}()
	sum, err := copyTo(f, body)
	if err != nil {
		return "", err
	}
	if want, _, ok := parseObject(name); ok && sum != want {
		return "", &image.DamageError{Name: name, Text: "does not have its digest"}
	}
	return tmp, nil
}

func copyTo(f *os.File, body io.Reader) (sum [sha256.Size]byte, err error) {
	s := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, s), body)
	s.Sum(sum[:0])
	return sum, errors.Join(err, f.Close())
}

// Drop removes an unwanted temporary file.
func (h *Home) Drop(temp string) { h.temp.Remove(temp) }

// sweepEvery is after how many images the objects of large payloads and results are listed:
// a request for each thousand of them.
const sweepEvery = 8

// Sweep deletes the objects of large payloads and results without a job. live yields the
// digests of all there are. Call it after an image: then this process was the owner of all
// it knows, and later owners never name an object without a job again. Their objects have
// the numbers of later claims.
func (h *Home) Sweep(live func(yield func(sum [sha256.Size]byte)) error) error {
	m := h.Images.Last()
	if m.Number%sweepEvery != 0 || h.Absent.Len() > 0 {
		return nil
	}
	ctx := h.Images.ctx
	gone := map[[sha256.Size]byte][]string{}
	err := listFiles(ctx, h.store, h.patience, func(name string, sum [sha256.Size]byte, claim uint64) error {
		if claim > h.Log.Claim() {
			return nil
		}
		// An upload on its way has its file here until the index knows its job.
		if _, err := h.temp.Stat(durable.TempPrefix + strings.TrimPrefix(name, prefix)); errors.Is(err, fs.ErrNotExist) {
			gone[sum] = append(gone[sum], name)
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	if err := live(func(sum [sha256.Size]byte) { delete(gone, sum) }); err != nil {
		return err
	}
	for _, names := range gone {
		for _, name := range names {
			if err := h.again(ctx, func() error { return h.store.Delete(ctx, name) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// listFiles calls visit with the name of each object of a payload or result, with the digest
// and the claim in it.
func listFiles(ctx context.Context, s objects.Store, patience time.Duration, visit func(name string, sum [sha256.Size]byte, claim uint64) error) error {
	for after := prefix; ; {
		var names []string
		err := objects.Again(ctx, patience, func(ctx context.Context) (_ bool, err error) {
			names, err = s.List(ctx, prefix, after, perList)
			return errors.Is(err, objects.ErrNotExist), err
		})
		if err != nil {
			return err
		}
		for _, name := range names {
			sum, claim, ok := parseObject(name)
			if !ok {
				continue
			}
			if err := visit(name, sum, claim); err != nil {
				return err
			}
		}
		if len(names) < perList {
			return nil
		}
		after = names[len(names)-1]
	}
}

// perList is how many names are asked for at a time.
const perList = 1000

// A Status is a home in a store, seen from outside.
type Status struct {
	Journal bucket.State
	Image   *image.Manifest // the newest; nil: there is none
	Before  *image.Manifest // the one before

	store    *image.Store
	objects  objects.Store
	patience time.Duration
}

// patienceToLook is how long a request is repeated.
const patienceToLook = 5 * time.Second

// Look looks at the home in a store, and changes nothing. A damaged or missing
// manifest is nil. Without a home the error is [objects.ErrNotExist].
func Look(ctx context.Context, s objects.Store) (*Status, error) {
	st := &Status{objects: s, patience: patienceToLook}
	var err error
	if st.store, err = image.New(s, st.patience); err != nil {
		return nil, err
	}
	if st.Journal, err = bucket.Look(ctx, s, st.patience); err != nil {
		return nil, err
	}
	newest, err := st.store.Newest(ctx)
	if err != nil {
		return nil, err
	}
	damage := new(image.DamageError)
	for n := newest; n > 0 && n+2 > newest; n-- {
		m, err := st.store.Manifest(ctx, n)
		switch {
		case err != nil && !errors.As(err, &damage):
			return nil, err
		case n == newest:
			st.Image = m
		default:
			st.Before = m
		}
	}
	return st, nil
}

// Damaged reports whether an error is of a damaged or missing object.
func Damaged(err error) bool {
	return errors.As(err, new(*bucket.DamageError)) || errors.As(err, new(*image.DamageError))
}

// ErrFaults is the error for a store with damage.
var ErrFaults = errors.New("objects are missing or damaged")

// A Report has the counts and the faults of a check.
type Report struct {
	Batches, Pieces, Files int
	Octets                 int64
	Faults                 []durable.Finding // by object, with where its contents can be had
}

// Check reads the journal, both images, and all payloads and results named there.
func (st *Status) Check(ctx context.Context) (*Report, error) {
	c := &check{Status: st, report: &Report{}, gone: map[jobOf]bool{}, bare: map[jobOf]bool{}, there: map[[sha256.Size]byte]bool{}}
	for _, step := range []func(context.Context) error{c.manifests, c.journal, c.images, c.readFiles} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}

type jobOf struct {
	queue string
	id    job.ID
}

// A check goes on.
type check struct {
	*Status
	report *Report
	gone   map[jobOf]bool             // jobs culled since the image
	bare   map[jobOf]bool             // jobs without results, by their last record since the image
	temps  []named                    // payloads and results of objects of their own
	there  map[[sha256.Size]byte]bool // those, and small results beside job files or in the journal
}

type named struct {
	jobOf
	sum  [sha256.Size]byte
	what string
}

func (c *check) fault(name, text, cure string) {
	c.report.Faults = append(c.report.Faults, durable.Finding{Path: name, Text: text, Cure: cure})
}

// owner names the directory with copies, perhaps.
func (c *check) owner() string { return "the directory of the last owner, " + c.Journal.Owner.Name }

// manifests names the manifests Look could not read.
func (c *check) manifests(ctx context.Context) error {
	newest, err := c.store.Newest(ctx)
	if err != nil {
		return err
	}
	if newest == 0 && c.Journal.First > 1 {
		damage := noImage(c.Journal.First)
		c.fault(damage.Name, damage.Text, "start a daemon on "+c.owner()+": it has them, and its next image is one")
	}
	for n := newest; n > 0 && n+2 > newest; n-- {
		_, err := c.store.Manifest(ctx, n)
		damage := new(image.DamageError)
		switch {
		case err == nil:
		case !errors.As(err, &damage):
			return err
		case n == newest && c.Before != nil:
			c.fault(damage.Name, damage.Text, fmt.Sprintf("the image before, %d, and the journal stand in for it", c.Before.Number))
		case n < newest && c.Image != nil:
			c.fault(damage.Name, damage.Text, "the newest image does not need it")
		default:
			c.fault(damage.Name, damage.Text, "start a daemon on "+c.owner()+": its next image replaces it")
		}
	}
	return nil
}

// at returns from where on the newest image needs the journal.
func (c *check) at() (at journal.LSN) {
	for _, m := range []*image.Manifest{c.Image, c.Before} {
		if m != nil {
			return m.At
		}
	}
	return 0
}

func (c *check) journal(ctx context.Context) error {
	at, seen := c.at(), c.Journal.First
	known := map[string]bool{}
	bad := func(err error) {
		damage := new(bucket.DamageError)
		errors.As(err, &damage)
		if known[damage.Name] {
			return
		}
		known[damage.Name] = true
		cure := "no other object has its changes; start a daemon on " + c.owner() + ", if it has them"
		switch {
		case seen < at:
			cure = "the newest image does not need it"
		case damage.Number < c.Journal.Begin: // the claim of the owner
			cure = "it says who owns the home, no more; cutie serve --takeover takes it all the same"
		}
		c.fault(damage.Name, damage.Text, cure)
	}
	var r record.Record
	n, err := bucket.Verify(ctx, c.objects, c.patience, &c.Journal, bad, func(rec journal.Record) {
		seen = rec.LSN + 1
		_, is, err := record.ParseHomeChange(rec.Data)
		if is || err != nil || r.Parse(rec.Data) != nil {
			return
		}
		of := jobOf{strings.Clone(r.Queue), r.Job}
		if r.Kind == job.Cull {
			c.gone[of] = true
		}
		c.bare[of] = r.Flags&(record.Result|record.Results) == 0
		if r.Result != nil {
			c.there[sha256.Sum256(r.Result)] = true
		}
		temp, _, _ := strings.Cut(r.Temp, "/")
		// A result may have gone with a requeue.
		if sum, _, ok := parseObject(objectOf(temp)); ok && r.Flags&record.InTemp != 0 {
			c.temps = append(c.temps, named{of, sum, "payload of " + r.Queue + "/" + r.Job.String()})
		}
	})
	for _, err := range c.Journal.Damage {
		bad(err)
	}
	c.report.Octets += n
	c.report.Batches = int(c.Journal.End - c.Journal.Begin + 1)
	return err
}

func (c *check) images(ctx context.Context) error {
	for _, m := range []*image.Manifest{c.Image, c.Before} {
		if m == nil {
			continue
		}
		newest := m == c.Image || c.Image == nil
		c.report.Pieces += m.Pieces()
		c.report.Octets += m.Live()
		known := map[string]bool{}
		bad := func(what string, err error) {
			damage := new(image.DamageError)
			errors.As(err, &damage)
			text := damage.Text + ", of " + what
			if known[text] || slices.ContainsFunc(c.report.Faults, func(f durable.Finding) bool { return f.Path == damage.Name && strings.HasPrefix(f.Text, text) }) {
				return
			}
			known[text] = true
			cure := c.owner() + " has them, if it has all files"
			if !newest {
				cure = "the newest image does not need it"
			}
			c.fault(damage.Name, text, cure)
		}
		err := c.store.Check(ctx, m, bad, func(queue string, id uint64, text []byte) {
			of := jobOf{queue, job.ID(id)}
			if c.gone[of] || !newest {
				return
			}
			if _, contents, ok := image.ParseResult(text); ok {
				c.there[sha256.Sum256(contents)] = true
				return
			}
			j, err := job.Parse(text)
			if err != nil {
				return
			}
			if sum, ok := sumOf(j.Digest(digest.SHA256).Hex); ok && j.Size > inline {
				c.temps = append(c.temps, named{of, sum, "payload of " + queue + "/" + of.id.String()})
			}
			for _, r := range j.Results {
				if c.bare[of] {
					break
				}
				c.temps = append(c.temps, named{of, r.SHA256, "result " + r.Name + " of " + queue + "/" + of.id.String()})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inline is up to where a payload is in the journal and in pages.
const inline = 128 << 10

func sumOf(text string) (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil && n == len(sum)
}

// readFiles reads all objects of payloads and results, and looks for the wanted ones.
func (c *check) readFiles(ctx context.Context) error {
	h := &Home{store: c.objects, patience: c.patience}
	err := listFiles(ctx, c.objects, c.patience, func(name string, want [sha256.Size]byte, _ uint64) error {
		var sum [sha256.Size]byte
		var size int64
		err := h.again(ctx, func() (err error) {
			sum, size, err = readSum(ctx, c.objects, name)
			return err
		})
		if err != nil && !errors.Is(err, objects.ErrNotExist) {
			return err
		}
		c.report.Files++
		c.report.Octets += size
		if c.there[want] = c.there[want] || sum == want; sum != want {
			c.fault(name, "does not have its digest", c.owner()+" has the file, if it was not lost")
		}
		return nil
	})
	if err != nil {
		return err
	}
	told := map[string]bool{}
	for _, n := range c.temps {
		if !c.there[n.sum] && !c.gone[n.jobOf] && !told[n.what] {
			told[n.what] = true
			c.fault(fmt.Sprintf("%s%x-", prefix, n.sum), "is missing, the "+n.what, c.owner()+" has the file, if it was not lost")
		}
	}
	return nil
}

func readSum(ctx context.Context, s objects.Store, name string) (sum [sha256.Size]byte, size int64, err error) {
	body, err := s.Get(ctx, name, 0)
	if err != nil {
		return sum, 0, err
	}
	defer body.Close()
	d := sha256.New()
	size, err = io.Copy(d, body)
	d.Sum(sum[:0])
	return sum, size, err
}
