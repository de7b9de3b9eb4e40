package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// putQueue sets properties of the queue in the path, and makes it if there is
// none; with If-None-Match: * it does nothing but make it, and with If-Match it
// never makes it.
func (h *Handler) putQueue(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	properties, err := h.properties(w, r)
	if err != nil {
		return err
	}
	name := r.PathValue("queue")
	q, err := h.svc.Ask(name)
	switch {
	case errors.Is(err, ledger.ErrNoQueue) && r.Header["If-Match"] != nil:
		return web.Errorf(http.StatusPreconditionFailed, "there is no queue %.80s that If-Match could name", strings.ToValidUTF8(name, "\ufffd"))
	case errors.Is(err, ledger.ErrNoQueue):
		return h.makeQueue(w, r, form, name, properties)
	case err != nil:
		return err
	}
	return h.changeQueue(w, r, form, q, properties)
}

// postQueue sets properties of a queue.
func (h *Handler) postQueue(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	properties, err := h.properties(w, r)
	if err != nil {
		return err
	}
	if len(properties) == 0 {
		return web.BadRequest("no property is given; they are named as in the state of the queue, and S is pause or restart")
	}
	return h.changeQueue(w, r, form, q, properties)
}

// postState makes the queue with the given property identifier.
func (h *Handler) postState(w http.ResponseWriter, r *request) error {
	form, err := r.form()
	if err != nil {
		return err
	}
	properties, err := h.properties(w, r)
	if err != nil {
		return err
	}
	name := properties.Value("identifier")
	if name == "" {
		return web.BadRequest("no identifier is given for the queue")
	}
	return h.makeQueue(w, r, form, name, properties)
}

func (h *Handler) makeQueue(w http.ResponseWriter, r *request, form state.Form, name string, properties anvl.Record) error {
	want, err := job.CleanQueueID(name)
	if err != nil {
		return err
	}
	if err := checkText("identifier", name); err != nil {
		return err
	}
	info := home.QueueInfo{Identifier: name, CullingSize: -1, CullingAge: -1}
	for _, p := range properties {
		if p.Name == "identifier" {
			if id, err := job.CleanQueueID(p.Value); err != nil {
				return err
			} else if id != want {
				return web.BadRequest("identifier %.80q is not that of the path, %.80q", p.Value, name)
			} else if err := checkText(p.Name, p.Value); err != nil {
				return err
			}
			info.Identifier = p.Value
			continue
		}
		if err := setProperty(&info, p.Name, p.Value, h.now()); err != nil {
			return err
		}
	}
	q, err := h.svc.CreateQueue(r.Context(), info)
	if err != nil {
		return err
	}
	d := state.OfQueue(h.base(r.Request), &state.Queue{State: q.State()})
	w.Header().Set("Location", d.Subject)
	return h.answerChange(w, r, http.StatusCreated, form, &d)
}

func (h *Handler) changeQueue(w http.ResponseWriter, r *request, form state.Form, q *queuefs.Queue, properties anvl.Record) error {
	properties, seen := bySeen(properties)
	if properties.Value("S") == "" {
		r.place = SavedPlace
	}
	_, err := h.svc.SetQueue(r.Context(), q.ID(), func(info *home.QueueInfo) error {
		if err := h.precondition(r, q); err != nil {
			return err
		}
		was := *info
		for _, p := range properties {
			if text, ok := seen[p.Name]; ok {
				before := was
				if err := setProperty(&before, p.Name, text, h.now()); err != nil {
					return err
				}
				if !reflect.DeepEqual(before, was) {
					return web.Errorf(http.StatusConflict, "%s was set to another value since the form was opened: look at the queue again, and set it there", p.Name)
				}
			}
			if p.Name == "identifier" {
				if p.Value != info.ID { // that is the queue, too
					info.Identifier = p.Value
				}
				continue
			}
			if err := setProperty(info, p.Name, p.Value, h.now()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	d := state.OfQueue(h.base(r.Request), &state.Queue{State: q.State()})
	return h.answerChange(w, r, http.StatusOK, form, &d)
}

// seenPrefix begins the names of former values in a form: its sender has seen them.
const seenPrefix = "seen-"

// bySeen returns the properties changed by their sender, and the values seen before. A
// form has all settings; the ones set by others meanwhile stay as they are.
func bySeen(all anvl.Record) (changed anvl.Record, seen map[string]string) {
	seen = map[string]string{}
	for _, p := range all {
		if name, ok := strings.CutPrefix(p.Name, seenPrefix); ok {
			seen[name] = p.Value
		}
	}
	if len(seen) == 0 {
		return all, nil
	}
	for _, p := range all {
		value, ok := seen[p.Name]
		if !strings.HasPrefix(p.Name, seenPrefix) && (!ok || p.Value != value) {
			changed = append(changed, p)
		}
	}
	return changed, seen
}

// removeQueue removes a queue without jobs, or one whose directory is lost.
func (h *Handler) removeQueue(w http.ResponseWriter, r *request) error {
	if err := h.fields(w, r); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	lost := r.flag("lost")
	if r.bad != nil {
		return r.bad
	}
	if lost {
		name := r.PathValue("queue")
		if err := h.svc.RemoveLost(r.Context(), name); err != nil {
			return notFound(err, ledger.ErrNoQueue, name)
		}
		d := h.service(r, state.Changes{})
		h.answer(w, http.StatusOK, form, &d)
		return nil
	}
	q, err := h.queue(r)
	if err != nil {
		return err
	}
	if err := h.precondition(r, q); err != nil {
		return err
	}
	// And once more, when nothing can change it.
	err = h.svc.RemoveQueueIf(r.Context(), q.ID(), func(now *queuefs.Queue) error { return h.precondition(r, now) })
	if s := q.State(); errors.Is(err, ledger.ErrNotEmpty) && s.Pending+s.Consumed+s.Deleted > 0 {
		err = fmt.Errorf("%w; delete what is pending, set cullingSizeThreshold and cullingAgeThreshold to 0, and cull the queue first", err)
	}
	if err != nil {
		return err
	}
	d := h.service(r, state.Changes{})
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

// now is the time of changes by hand, and for the age of changes.
func (h *Handler) now() time.Time { return h.o.Now() }

// cull culls a queue, or all, by their thresholds (Cutie 3.2). For a queue in
// the path, thresholds of the request take their place and need no space on a
// full disk: without the other one cullingSizeThreshold is 0, and
// cullingAgeThreshold is unset.
func (h *Handler) cull(w http.ResponseWriter, r *request) error {
	var q *queuefs.Queue
	o := queuefs.CullOptions{}
	if r.PathValue("queue") != "" {
		var err error
		if q, err = h.queue(r); err != nil {
			return err
		}
		o.Queue = q.ID()
	}
	r.known = append(slices.Clone(r.known), sizeThreshold, ageThreshold) // also where they are refused
	if err := h.choices(w, r); err != nil {
		return err
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	if o.Dry, o.Keep = r.flag("dry"), r.thresholds(); r.bad != nil {
		return r.bad
	}
	if o.Keep != nil && q == nil {
		return web.BadRequest("parameters %s and %s are of one queue: name it, as in /cull/jobs", sizeThreshold, ageThreshold)
	}
	changes, err := h.culled(r.Context(), o)
	if err != nil {
		return err
	}
	d := h.service(r, changes)
	if q != nil {
		d = state.OfQueue(h.base(r.Request), &state.Queue{State: q.State(), Changes: changes})
	}
	w.Header()["Cache-Control"] = noStore
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

const (
	sizeThreshold = "cullingSizeThreshold"
	ageThreshold  = "cullingAgeThreshold"
)

// thresholds returns the thresholds of the request, nil if it has none; see
// wrong.
func (r *request) thresholds() *queuefs.Thresholds {
	if r.text(sizeThreshold)+r.text(ageThreshold) == "" {
		return nil
	}
	read := func(name string) int64 {
		return parsed(r, name, func(s string) (int64, error) { return parseNumber(name, s) })
	}
	return &queuefs.Thresholds{Size: read(sizeThreshold), Age: read(ageThreshold)}
}

// culled culls as many jobs as fit one answer. An error after the first one, or
// the end of the time, is answered with the jobs culled before. The last answer
// has the due jobs that stay.
func (h *Handler) culled(ctx context.Context, o queuefs.CullOptions) (c state.Changes, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.o.BulkTime)
	defer cancel()
	for j, e := range h.svc.Cull(ctx, o) {
		if e != nil {
			err = e
			break
		}
		c.Culled = append(c.Culled, j)
		if len(c.Culled) == bulk.Max {
			cancel() // it stops after the jobs chosen already
		}
	}
	switch {
	case err == nil:
		c.Kept, _ = h.svc.Kept(ctx, o) // as many as there was time to count
	case len(c.Culled) > 0:
		c.More, err = true, nil
	}
	return c, err
}

// properties reads settings of a queue: names and values as in the state of a
// queue, from the query and from a body in the form of ANVL, JSON or an HTML
// form.
func (h *Handler) properties(w http.ResponseWriter, r *request) (anvl.Record, error) {
	contentType, err := r.contentType()
	if err != nil {
		return nil, err
	}
	data, err := h.small(w, r)
	if err != nil {
		return nil, err
	}
	rec, err := readProperties(r.Context(), contentType, data)
	if err != nil {
		return nil, err
	}
	for name, values := range r.query {
		if name == "t" || name == "v" || name == "D" {
			continue
		}
		for _, v := range values {
			rec.Add(name, v)
		}
	}
	seen := map[string]bool{}
	for _, p := range rec {
		if seen[p.Name] {
			return nil, web.BadRequest("%.40q is repeated", p.Name)
		}
		seen[p.Name] = true
	}
	return rec, nil
}

// maxProperties is how many properties a form of parts may have.
const maxProperties = 1000

// readProperties reads the names and values of a body.
func readProperties(ctx context.Context, contentType string, data []byte) (anvl.Record, error) {
	if len(data) == 0 {
		return nil, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, web.BadRequest("Content-Type: %v", err)
	}
	switch media {
	case "application/x-www-form-urlencoded":
		values, err := web.ParseForm(ctx, data)
		if err != nil {
			return nil, err
		}
		var rec anvl.Record
		for name, all := range values {
			for _, v := range all {
				rec.Add(name, v)
			}
		}
		return rec, nil
	case "multipart/form-data":
		var rec anvl.Record
		err := eachPart(ctx, bytes.NewReader(data), params["boundary"], maxProperties, func(p *multipart.Part) error {
			text, err := web.ReadAll(ctx, p)
			rec.Add(p.FormName(), string(text))
			return err
		})
		return rec, err
	}
	form, _ := state.FormOf(media)
	switch form {
	case state.ANVL:
		rec, err := anvl.ParseRecord(data)
		if err != nil {
			return nil, web.BadRequest("%v", err)
		}
		return rec, nil
	case state.JSON:
		return propertiesOfJSON(data)
	}
	return nil, unsupportedBody(media)
}

// setProperty gives a queue a property. An empty value unsets it.
func setProperty(info *home.QueueInfo, name, value string, now time.Time) error {
	if err := checkText(name, value); err != nil {
		return err
	}
	if name == "S" {
		switch {
		case value == "restart":
			info.Paused = time.Time{}
		case value != "pause":
			return web.BadRequest("S is %.40q, neither pause nor restart", value)
		case info.Paused.IsZero():
			info.Paused = now
		}
		return nil
	}
	p := home.PropertyNamed(name)
	if p == nil || p.Fixed {
		return web.BadRequest("%.40q is not known here: it is no property to give a queue", name)
	}
	return p.Set(info, value)
}

// checkText refuses control characters, line ends among them, and characters outside
// of XML 1.0: a property is one line, and no form of a state says another text.
func checkText(name, value string) error {
	for i, r := range value {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(value[i:], "\ufffd"):
			return web.BadRequest("%.40q is not UTF-8 at octet %d", name, i)
		case r == '\n' || r == '\r':
			return web.BadRequest("%.40q has a line end at octet %d, and a property is one line", name, i)
		case r < ' ', r == 0x7f, r == 0xfffe, r == 0xffff:
			return web.BadRequest("%.40q has the character %U at octet %d, which a state cannot say", name, r, i)
		}
	}
	return nil
}

// parseNumber reads a number; the empty text leaves it unset.
func parseNumber(name, value string) (int64, error) {
	if value == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, web.BadRequest("%s is %.40q, not a whole number from 0 to %d", name, value, int64(math.MaxInt64))
	}
	return n, nil
}

// propertiesOfJSON reads an object with the names and values of properties, or the state
// of a queue.
func propertiesOfJSON(data []byte) (anvl.Record, error) {
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, web.BadRequest("JSON: %v", err)
	}
	var rec anvl.Record
	for name, value := range object {
		if strings.HasPrefix(name, "@") { // of JSON-LD
			continue
		}
		switch v := value.(type) {
		case nil:
		case string:
			rec.Add(name, v)
		case bool:
			rec.Add(name, strconv.FormatBool(v))
		case float64:
			rec.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			return nil, web.BadRequest("%s: %s is no value for a property", name, fmt.Sprintf("%.40v", v))
		}
	}
	return rec, nil
}
