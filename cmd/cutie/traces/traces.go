// Package traces sends spans of jobs to a collector of OpenTelemetry, by OTLP over HTTP.
// It follows the events of the queues:
//
//	span           kind      from              to
//	send QUEUE     producer  the submission
//	wait QUEUE     internal  job is pending    it is handed out
//	process QUEUE  consumer  it is handed out  outcome, return, end of the lease, deletion
//
// The parent of the first is the span in the field traceparent of the submission (W3C
// Trace Context); it is the parent of the others. The consumer gets the traceparent of
// its span process, or of wait if it takes the job without a lease. Without a
// traceparent the job begins a trace of its own. Numbers of spans follow from the job, so
// they are right after every restart.
//
// Spans say nothing of payloads, sidecars, file names and messages. They are no record:
// events of the time before a start, and of a collector that is away for long, have none.
package traces

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// Options are the settings of a Tracer.
type Options struct {
	URL     string  // of the collector, such as http://127.0.0.1:4318; "": no spans
	Ratio   float64 // of the jobs whose submitters name no trace, 0 to 1; see [Tracer.Sample]
	Version string  // of this program
	Log     zerolog.Logger
}

// A Tracer sends spans of the jobs of a service. Tick and Close are for one goroutine.
type Tracer struct {
	svc      *queuefs.Service
	o        Options
	provider *sdk.TracerProvider // nil: no spans
	tracer   trace.Tracer
	below    atomic.Uint64 // jobs have spans if half of the end of their trace's number is less
	count    uint64        // see [queuefs.Service.Changed]
	seen     map[*queuefs.Queue]job.Seq
}

// New returns a Tracer of the events from now on; without a URL it only passes on the
// traces of submissions. Headers and more for the collector are
// in the variables OTEL_EXPORTER_OTLP_* and OTEL_* of the environment.
func New(ctx context.Context, svc *queuefs.Service, o Options) (*Tracer, error) {
	t := &Tracer{svc: svc, o: o, seen: map[*queuefs.Queue]job.Seq{}}
	t.Sample(o.Ratio)
	if o.URL == "" {
		return t, nil
	}
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.URL+"/v1/traces"), otlptracehttp.WithTimeout(sendsAtMost),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: sendsAgain}))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "cutie"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: %w", err), out.Shutdown(ctx))
	}
	t.provider = sdk.NewTracerProvider(sdk.WithBatcher(logged{out, o.Log}, sdk.WithMaxQueueSize(mostSpans), sdk.WithMaxExportBatchSize(mostExport)), sdk.WithIDGenerator(known{}), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(about))
	t.tracer = t.provider.Tracer("cutie", trace.WithInstrumentationVersion(o.Version))
	queues, now := svc.Changed(0)
	for _, q := range queues {
		t.seen[q] = q.Seq()
	}
	t.count = now
	return t, nil
}

// Close makes the last spans, and sends all that are left, within [closeTime].
func (t *Tracer) Close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := errors.Join(t.Tick(ctx), t.provider.Shutdown(ctx)); err != nil {
		t.o.Log.Warn().Err(err).Msg("the last spans of jobs are lost")
	}
}

// closeTime is what a stop waits for the collector.
const closeTime = 3 * time.Second

// A logged exporter logs its errors, where the library would print them.
type logged struct {
	sdk.SpanExporter
	log zerolog.Logger
}

func (l logged) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn().Err(err).Int("spans", len(spans)).Msg("spans of jobs are lost")
	}
	return nil
}

// Names of spans, before the name of the queue.
const (
	send    = "send"
	wait    = "wait"
	process = "process"
)

// Headers returns traceparent and tracestate for the consumer of a job.
func (t *Tracer) Headers(j *job.Job) (parent, state string) {
	if t.provider == nil {
		return j.PassTrace()
	}
	tr := j.Trace()
	if !t.sampled(&tr) {
		tr.Flags &^= 1
	}
	name := process
	if j.Lease == (job.Lease{}) {
		name = wait
	}
	return tr.At(j.Span(name, j.Attempts)), tr.State
}

// sampled decides for the whole trace: who began it, or the ratio.
func (t *Tracer) sampled(tr *job.Trace) bool {
	if tr.Given() {
		return tr.Flags&1 != 0
	}
	return binary.BigEndian.Uint64(tr.ID[8:])>>1 < t.below.Load()
}

// Sample changes the ratio.
func (t *Tracer) Sample(ratio float64) { t.below.Store(uint64(ratio * (1 << 63))) }

// Events read at once: at most this many, with so many bytes.
const (
	mostEvents = 1000
	mostBytes  = 4 << 20
)

// Spans in memory, and in one request; the first is more than the events of flushAfter in
// each of a hundred queues.
const (
	mostSpans   = 1 << 15
	mostExport  = 1 << 11
	flushAfter  = 256
	sendsAgain  = 30 * time.Second // to a collector that does not answer
	sendsAtMost = 10 * time.Second // one request
)

// Tick makes the spans of the events since the last one.
func (t *Tracer) Tick(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	queues, now := t.svc.Changed(t.count)
	t.count = now
	for _, q := range queues {
		if q.Mirror().Live() || t.svc.Standby() {
			t.seen[q] = q.Seq()
			continue // the original, or the owner, sends them
		}
		if err := t.follow(ctx, q); err != nil {
			return fmt.Errorf("traces: queue %s: %w", q.ID(), err)
		}
	}
	if len(t.seen) > 2*len(t.svc.Queues())+100 { // of removed queues
		there := map[*queuefs.Queue]job.Seq{}
		for _, q := range t.svc.Queues() {
			there[q] = t.seen[q]
		}
		t.seen = there
	}
	return nil
}

func (t *Tracer) follow(ctx context.Context, q *queuefs.Queue) error {
	seen, known := t.seen[q]
	if !known {
		seen = q.State().Before // a new queue
	}
	for ctx.Err() == nil {
		events, err := q.Journaled(seen, mostEvents, mostBytes)
		if errors.Is(err, ledger.ErrGone) {
			t.seen[q] = q.Seq()
			return err
		}
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			t.event(q.ID(), &events[i])
		}
		seen = events[len(events)-1].Seq
		t.seen[q] = seen
		if len(events) > flushAfter {
			if err := t.provider.ForceFlush(ctx); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// event makes the spans that end with an event.
func (t *Tracer) event(queue string, e *ledger.Journaled) {
	if e.Job == 0 || len(e.Text) == 0 {
		return
	}
	j, err := job.Parse(e.Text)
	if err != nil {
		return // the engine reports it
	}
	j.Queue = queue
	tr := j.Trace()
	if !t.sampled(&tr) {
		return
	}
	switch {
	case e.From == 0:
		t.span(&j, &tr, send, 0, e.Time, e.Time)
	case e.From == job.Pending && e.To == job.Consumed:
		t.span(&j, &tr, wait, j.Attempts, j.PendingSince(), e.Time)
	case e.From == job.Consumed && (e.To == job.Pending || e.To == job.Deleted && j.Outcome == 0 || e.To == job.Consumed && e.Time.Equal(j.Finished)):
		t.span(&j, &tr, process, j.Attempts, j.Consumed, e.Time)
	}
}

func (t *Tracer) span(j *job.Job, tr *job.Trace, name string, n int, from, to time.Time) {
	parent, kind := j.Span(send, 0), trace.SpanKindInternal
	switch name {
	case send:
		parent, kind = tr.Parent, trace.SpanKindProducer
	case process:
		kind = trace.SpanKindConsumer
	}
	state, _ := trace.ParseTraceState(tr.State) // malformed: as none
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: tr.ID, SpanID: parent, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true}))
	about := []attribute.KeyValue{
		attribute.String("messaging.system", "cutie"),
		attribute.String("messaging.operation.name", name),
		attribute.String("messaging.destination.name", j.Queue),
		attribute.String("messaging.message.id", j.ID.String()),
		attribute.Int64("messaging.message.body.size", j.Size),
	}
	if name != wait {
		about = append(about, attribute.String("messaging.operation.type", name))
	}
	if name == send && j.Submitter != "" {
		about = append(about, attribute.String("messaging.client.id", j.Submitter))
	}
	if name == process {
		about = append(about, attribute.Int("cutie.attempt", n))
		if j.Consumer != "" {
			about = append(about, attribute.String("messaging.client.id", j.Consumer))
		}
		if j.Outcome != 0 {
			about = append(about, attribute.String("cutie.outcome", j.Outcome.String()))
		}
	}
	_, s := t.tracer.Start(context.WithValue(ctx, wantedKey{}, wanted{tr.ID, j.Span(name, n)}), name+" "+j.Queue,
		trace.WithTimestamp(from), trace.WithSpanKind(kind), trace.WithAttributes(about...))
	if name == process && j.Outcome != job.Completed {
		s.SetStatus(codes.Error, "")
	}
	s.End(trace.WithTimestamp(to))
}

// known gives spans the numbers wanted in their context.
type known struct{}

type wantedKey struct{}

type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

func (known) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	return w.trace, w.span
}

func (known) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	return w.span
}
