// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// responseTimeout is the timeout for the header of a response, and for the body of one that is not a stream.
	responseTimeout = 30 * time.Second
	// callTimeout is the maximum time for which a call waits to begin while Limits.Calls others wait for their responses.
	callTimeout = time.Second
)

var (
	// ErrRedirect is returned for a redirect, which no API server sends.
	ErrRedirect = errors.New("the peer redirects, which is refused: " +
		"set spec.server of the ForeignCluster to the URL to which it redirects")
	// ErrUpgrade is returned for a response that switches protocols although the request does not permit it.
	ErrUpgrade = errors.New("the peer switched protocols, which the request does not permit")
	// ErrBusy is returned for a call that could not begin within callTimeout, because Limits.Calls others wait for their
	// responses.
	ErrBusy = errors.New("the peer has not responded to earlier requests yet")
	// ErrResponseTooLarge is returned for a response that exceeds Limits.Response or Limits.Watch.
	ErrResponseTooLarge = errors.New("the peer's response is larger than this cluster reads")
	// ErrEncoding is returned for a response in an encoding, apart from JSON, that clients of Kubernetes decode. Its
	// elements cannot be counted before it is decoded.
	ErrEncoding = errors.New("the peer's response is YAML, protobuf or CBOR although JSON was requested, " +
		"which is refused: use an API server or proxy that responds with JSON")
	// ErrTooManyElements is returned for a JSON response that exceeds Limits.Elements, or is nested deeper than maxDepth.
	ErrTooManyElements = errors.New("the peer's response has more or deeper nested elements than this cluster reads")

	errResponseTimeout = fmt.Errorf("the peer did not respond within %v", responseTimeout)
)

// Limits bound what a client reads of a peer.
type Limits struct {
	// Response is the maximum length of a response that is not a stream, in bytes.
	Response int64
	// Watch is the maximum length of one watch in bytes, after which objects are listed again. 0 means no limit for the
	// watch, and Response for each event: client-go reads an event into memory before it checks its size.
	Watch int64
	// Calls is the maximum number of concurrent calls, apart from streams, so that a peer that does not respond occupies
	// few of the workers that serve all peers. 0 means no limit.
	Calls int
	// Elements is the number of array elements that a response may have whatever its length; each minElement bytes of the
	// response permit one more. In a watch, Elements applies to the whole watch, or to each event if Watch is 0. If
	// Elements is not 0, clients request JSON only, and responses in other encodings that they decode are refused. 0 means
	// no limit.
	Elements int64
}

var (
	// SharedLimits are for clients of a process with several peers, which caches few and small objects of each: the
	// largest permitted responses of one peer take much less memory than the process has.
	SharedLimits = Limits{Response: 4 << 20, Watch: 8 << 20, Elements: 10_000, Calls: 8}
	// OwnLimits are for clients of a process with one peer: if its responses exhaust the memory of the process, no other
	// peer is affected.
	OwnLimits = Limits{Response: 16 << 20, Elements: 100_000}
)

// guard is a transport for responses that are not trusted. It refuses redirects, unrequested protocol switches and
// unrequested encodings, and bounds length, elements and duration of responses, and the number of concurrent calls. It
// removes Retry-After, because client-go waits for that time within the call: callers have delays of their own. Whether
// a response is a stream, which is bounded less, is decided by the request alone: client-go reads the responses of all
// other requests into memory, whatever their media type.
type guard struct {
	next   http.RoundTripper
	limits Limits
	// calls has an element for each call whose response body is not closed yet. nil means that calls are not limited.
	calls chan struct{}
	// refused is called with the error of each refused response.
	refused func(error)
}

func newGuard(next http.RoundTripper, limits Limits, refused func(error)) *guard {
	g := &guard{next: next, limits: limits, refused: refused}
	if limits.Calls > 0 {
		g.calls = make(chan struct{}, limits.Calls)
	}
	return g
}

// RoundTrip implements http.RoundTripper. It fails with ErrBusy, ErrRedirect, ErrUpgrade, ErrEncoding or a timeout;
// reading the body fails with ErrResponseTooLarge, ErrTooManyElements or a timeout.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if g.calls == nil || streamOf(request) != notAStream {
		return g.roundTrip(request)
	}
	if err := g.begin(request.Context()); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(func() { <-g.calls })
	response, err := g.roundTrip(request)
	if err != nil {
		end()
		return nil, err
	}
	response.Body = &endingBody{ReadCloser: response.Body, end: end}
	return response, nil
}

// begin waits until fewer than Limits.Calls calls wait for their responses, for at most callTimeout.
func (g *guard) begin(ctx context.Context) error {
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case g.calls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		g.refused(ErrBusy)
		return ErrBusy
	}
}

// endingBody is the body of a response to a call that counts for Limits.Calls until the body is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (g *guard) roundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(responseTimeout, func() { cancel(errResponseTimeout) })
	kind, counts := streamOf(request), g.limits.Elements > 0
	sent := request.WithContext(ctx)
	if counts && (kind == notAStream || kind == watchStream) {
		sent = requestingJSON(sent)
	}
	response, err := g.next.RoundTrip(sent)
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errResponseTimeout) {
			err = cause
			g.refused(err)
		}
		cancel(err)
		return nil, err
	}
	// client-go decodes a response that is not successful, too.
	decoded := kind == notAStream || kind == watchStream || response.StatusCode != http.StatusOK
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && kind == upgradedStream:
		// The body is the connection itself, which must not be wrapped.
		timer.Stop()
		context.AfterFunc(request.Context(), func() { cancel(context.Canceled) })
		return response, nil
	case response.StatusCode == http.StatusSwitchingProtocols:
		err = ErrUpgrade
	case response.StatusCode >= 300 && response.StatusCode < 400:
		err = ErrRedirect
	case decoded && counts && refusedEncoding(mediaTypeOf(response)):
		err = ErrEncoding
	}
	if err != nil {
		timer.Stop()
		g.refused(err)
		err = fmt.Errorf("%s responds with %s: %w", request.URL.Host, Text(response.Status), err)
		err = errors.Join(err, response.Body.Close())
		cancel(err)
		return nil, err
	}
	response.Header.Del("Retry-After")
	body := &guardedBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel, timer: timer, refused: g.refused}
	if decoded && counts {
		body.meter = &meter{free: g.limits.Elements, unknown: !isJSON(mediaTypeOf(response))}
		ensureMediaType(response)
	}
	switch {
	case kind == notAStream || response.StatusCode != http.StatusOK:
		body.limit = g.limits.Response
	case kind == watchStream:
		timer.Stop()
		body.limit = g.limits.Watch
		if body.meter != nil && g.limits.Watch == 0 {
			body.meter.perValue, body.valueLimit = true, g.limits.Response
		}
	default:
		timer.Stop()
	}
	response.Body = body
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// stream is the kind of the response to a request: one object, or a kind of stream.
type stream int

const (
	// notAStream is the kind of requests whose response is one object.
	notAStream stream = iota
	// watchStream is the kind of watches, whose response is a sequence of objects.
	watchStream
	// logStream is the kind of requests for logs. A caller copies them without holding them in memory.
	logStream
	// upgradedStream is the kind of exec, attach and port-forward.
	upgradedStream
)

// streamOf returns the kind of an API server's response to a request.
func streamOf(request *http.Request) stream {
	switch folder, name := path.Split(request.URL.Path); {
	case request.Header.Get("Upgrade") != "":
		return upgradedStream
	case request.Method != http.MethodGet:
		return notAStream
	case name == "log" && strings.Contains(folder, "/pods/"):
		return logStream
	}
	if watch, err := strconv.ParseBool(request.URL.Query().Get("watch")); err == nil && watch {
		return watchStream
	}
	return notAStream
}

type guardedBody struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	refused func(error)
	// limit is the maximum length of the body in bytes; 0 means no limit. read is the number of bytes that were read.
	limit, read int64
	// valueLimit is the maximum length of each value of a sequence, which meter measures; 0 means no limit.
	valueLimit int64
	// meter counts the elements of the response. nil means that they are not limited.
	meter *meter
	err   error
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	switch {
	case b.limit > 0 && b.read > b.limit:
		return b.refuse(ErrResponseTooLarge)
	case b.meter != nil && !b.meter.admits(p[:n]):
		return b.refuse(ErrTooManyElements)
	case b.valueLimit > 0 && b.meter.bytes > b.valueLimit:
		return b.refuse(ErrResponseTooLarge)
	case err != nil && errors.Is(context.Cause(b.ctx), errResponseTimeout):
		return b.refuse(errResponseTimeout)
	}
	return n, err
}

func (b *guardedBody) refuse(err error) (int, error) {
	b.err = err
	b.refused(err)
	b.cancel(err)
	return 0, err
}

// Close closes the body and cancels the request.
func (b *guardedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(context.Canceled)
	return err
}
