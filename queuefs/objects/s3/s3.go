// Package s3 reaches an object store by the S3 API.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"cutie/queuefs/objects"
)

// A Bucket is an [objects.Store]: the objects of a bucket below a prefix.
type Bucket struct {
	client         *minio.Client
	bucket, prefix string

	credentials *credentials.Credentials
	renewed     atomic.Int64 // ns: when they were read again
}

// Open returns the store of a URL, s3://BUCKET/PREFIX. endpoint is the URL of the
// service; "" means AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL of the environment, or else
// Amazon S3. Credentials come from the environment, from the file of credentials, or from
// the machine. Those in the file are read again when the store denies access, at most once
// a second; those of the machine are renewed before they expire. Nothing is sent yet.
func Open(store, endpoint string) (*Bucket, error) {
	u, err := url.Parse(store)
	switch {
	case err == nil && u.User != nil:
		return nil, errors.New("the URL of a store has no user and no password: credentials are in the environment or in their file")
	case err != nil || u.Scheme != "s3" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%.100q is no store, want s3://BUCKET/PREFIX", store)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	endpoint = cmp.Or(endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	at, err := url.Parse(endpoint)
	if err != nil || at.User != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || strings.Trim(at.Path, "/") != "" {
		return nil, errors.New("the endpoint of a store is a URL such as https://HOST, without user and path")
	}
	creds := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}},
	})
	client, err := minio.New(at.Host, &minio.Options{
		Creds:      creds,
		Secure:     at.Scheme == "https",
		Region:     cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		Transport:  transport(silence),
		MaxRetries: 1, // a lost answer is a question for the caller
	})
	if err != nil {
		return nil, fmt.Errorf("store %s at %s: %w", store, endpoint, err)
	}
	return &Bucket{client: client, bucket: u.Host, prefix: prefix, credentials: creds}, nil
}

// silence is how long a connection with a request may carry nothing.
const silence = time.Minute

// transport keeps connections open for the next requests, and gives up a silent one, in the
// middle of a body too.
func transport(silence time.Duration) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watched{c, silence}, nil
	}
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 64, 64
	t.ResponseHeaderTimeout = silence
	t.DisableCompression = true // lengths and digests are of the bytes as stored
	return t
}

// A watched is a connection that fails after some silence.
type watched struct {
	net.Conn
	silence time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	return w.Conn.Read(p)
}

// Write gives the answer its time from here on: somebody reads already.
func (w *watched) Write(p []byte) (int, error) {
	if err := w.SetDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// partSize is the size of the parts of large objects. Create sends none in parts.
const partSize = 32 << 20

// Create is [objects.Store.Create].
func (b *Bucket) Create(ctx context.Context, name string, data []byte) error {
	o := minio.PutObjectOptions{PartSize: partSize, DisableMultipart: true}
	o.SetMatchETagExcept("*")
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	return b.named(name, err)
}

// Put is [objects.Store.Put].
func (b *Bucket) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, body, size, minio.PutObjectOptions{PartSize: partSize})
	return b.named(name, err)
}

// Publish puts a file, to be served with these fields. A failure may pass; it tries three
// times.
func (b *Bucket) Publish(ctx context.Context, name string, file *os.File, mediaType, cacheControl string) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	o := minio.PutObjectOptions{PartSize: partSize, ContentType: mediaType, CacheControl: cacheControl}
	for n := 0; ; n++ {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := b.client.PutObject(ctx, b.bucket, b.prefix+name, file, st.Size(), o)
		if code := minio.ToErrorResponse(err).Code; slices.Contains(directories, code) {
			return fmt.Errorf("s3://%s/%s%s: %w", b.bucket, b.prefix, name, objects.ErrPrefix)
		}
		if err == nil || n == 2 {
			return b.named(name, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), b.named(name, err))
		}
	}
}

// directories are the codes of stores with files and directories for a name that begins
// others.
var directories = []string{"ExistingObjectIsDirectory", "ObjectParentIsFile", "XMinioObjectExistsAsDirectory", "XMinioParentIsObject"}

// Get is [objects.Store.Get].
func (b *Bucket) Get(ctx context.Context, name string, most int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if most > 0 {
		if err := o.SetRange(0, most-1); err != nil {
			return nil, b.named(name, err)
		}
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.bucket, b.prefix+name, o)
	return body, b.named(name, err)
}

// Part is [objects.Store.Part].
func (b *Bucket) Part(ctx context.Context, name string, from, size int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if err := o.SetRange(from, from+size-1); err != nil {
		return nil, b.named(name, err)
	}
	core := minio.Core{Client: b.client}
	body, _, _, err := core.GetObject(ctx, b.bucket, b.prefix+name, o)
	if minio.ToErrorResponse(err).Code == minio.InvalidRange {
		return io.NopCloser(strings.NewReader("")), nil // the object ends before
	}
	return body, b.named(name, err)
}

// Delete is [objects.Store.Delete].
func (b *Bucket) Delete(ctx context.Context, name string) error {
	err := b.named(name, b.client.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, objects.ErrNotExist) {
		return nil
	}
	return err
}

// List is [objects.Store.List].
func (b *Bucket) List(ctx context.Context, prefix, after string, most int) (names []string, err error) {
	if after != "" {
		after = b.prefix + after
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix, StartAfter: after, MaxKeys: most, Recursive: true}) {
		if o.Err != nil {
			return nil, b.named(prefix, o.Err)
		}
		if names = append(names, strings.TrimPrefix(o.Key, b.prefix)); len(names) == most {
			break
		}
	}
	return names, nil
}

// named gives an error the name of the object, and its meaning.
func (b *Bucket) named(name string, err error) error {
	if err == nil {
		return nil
	}
	code := minio.ToErrorResponse(err).Code
	switch code {
	case minio.NoSuchKey:
		err = objects.ErrNotExist
	case minio.PreconditionFailed:
		err = objects.ErrExist
	}
	if said := new(minio.ErrorResponse); errors.As(err, said) {
		err = errors.New(strings.TrimSuffix(said.Error(), "."))
		means := meanings[code]
		if strings.Contains(strings.ToLower(said.Message), "<html") {
			means, err = objects.ErrForeign, errors.New(http.StatusText(said.StatusCode))
		}
		if means == nil && (said.StatusCode == http.StatusUnauthorized || said.StatusCode == http.StatusForbidden) {
			means = objects.ErrDenied
		}
		if means != nil {
			err = fmt.Errorf("%w: %w", means, err)
			if means == objects.ErrDenied {
				b.renew()
			}
		}
	}
	return fmt.Errorf("s3://%s/%s%s: %w", b.bucket, b.prefix, name, err)
}

// renew has the next request read the credentials again.
func (b *Bucket) renew() {
	now, last := time.Now().UnixNano(), b.renewed.Load()
	if now-last >= int64(time.Second) && b.renewed.CompareAndSwap(last, now) {
		b.credentials.Expire()
	}
}

// meanings are those of the codes an operator has to act on.
var meanings = map[string]error{
	minio.AccessDenied:      objects.ErrDenied,
	"AllAccessDisabled":     objects.ErrDenied,
	"ExpiredToken":          objects.ErrDenied,
	"InvalidAccessKeyId":    objects.ErrDenied,
	"InvalidToken":          objects.ErrDenied,
	"SignatureDoesNotMatch": objects.ErrDenied,
	"TokenRefreshRequired":  objects.ErrDenied,
	"XAdminUserNotFound":    objects.ErrDenied, // versitygw
	minio.NoSuchBucket:      objects.ErrNoBucket,
	"RequestTimeTooSkewed":  objects.ErrClock,

	"AuthorizationHeaderMalformed": objects.ErrRegion, // it has the region
	"PermanentRedirect":            objects.ErrRegion,
	"InvalidRegion":                objects.ErrRegion,
}

var _ objects.Store = (*Bucket)(nil)
