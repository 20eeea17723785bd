// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"

	federationscheme "liqo.io/federation/generated/clientset/versioned/scheme"
)

// peer starts a server of a remote cluster, and returns the configuration of an
// invitation to it.
func peer(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config, err := Config(&Identity{Server: server.URL, CA: ca, Token: "token"}, Options{Limits: SharedLimits})
	if err != nil {
		t.Fatal(err)
	}
	// The server is on this machine, which the dialer forbids.
	config.Dial = nil
	return server, config
}

func get(t *testing.T, config *rest.Config, path string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestPeerRedirectRefused(t *testing.T) {
	reached := false
	target := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(target.Close)
	for _, code := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		_, config := peer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, code) })
		if _, err := get(t, config, "/api"); !errors.Is(err, ErrRedirect) {
			t.Errorf("%d: error %v", code, err)
		}
	}
	if reached {
		t.Error("the redirect was followed")
	}
}

// The request alone decides what is a stream, because client-go reads all other responses into memory, whatever their
// media type and status.
func TestResponsesAreBoundedExceptRequestedStreams(t *testing.T) {
	const (
		list   = "/api/v1/namespaces/a/pods"
		watch  = "/api/v1/namespaces/a/pods?watch=true"
		log    = "/api/v1/namespaces/a/pods/b/log"
		exec   = "/api/v1/namespaces/a/pods/b/exec"
		length = 1 << 20
	)
	mediaTypes := []string{
		"application/json", "application/json;stream=watch", "application/vnd.kubernetes.protobuf", "application/yaml",
		"application/cbor", "text/plain", "application/octet-stream", "image/png", "", "invalid;;",
	}
	for _, test := range []struct {
		name, method, path string
		upgrade            bool
		status             int
		limits             Limits
		want               error
	}{
		{"a list", "GET", list, false, 200, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a list of the maximum length", "GET", list, false, 200, Limits{Response: length}, nil},
		{"a write", "POST", list, false, 201, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a patch of something named watch", "PATCH", watch, false, 200, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a failure", "GET", list, false, 500, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a switch of protocols", "GET", list, false, 101, Limits{Response: length}, ErrUpgrade},
		{"a redirect", "GET", list, false, 307, Limits{Response: length}, ErrRedirect},
		{"a watch", "GET", watch, false, 200, Limits{Response: 1, Watch: length}, nil},
		{"a watch without a limit", "GET", watch, false, 200, Limits{Response: 1}, nil},
		{"a long watch", "GET", watch, false, 200, Limits{Response: length, Watch: length - 1}, ErrResponseTooLarge},
		{"a failed watch", "GET", watch, false, 410, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a watch that switches protocols", "GET", watch, false, 101, Limits{Response: length}, ErrUpgrade},
		{"a log", "GET", log, false, 200, Limits{Response: 1, Watch: 1}, nil},
		{"a failed log", "GET", log, false, 404, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"a Service named log", "GET", "/api/v1/namespaces/a/services/log", false, 200, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"exec", "POST", exec, true, 101, Limits{Response: 1}, nil},
		{"a refused exec", "POST", exec, true, 403, Limits{Response: length - 1}, ErrResponseTooLarge},
		{"an exec without a switch of protocols", "POST", exec, true, 201, Limits{Response: length - 1}, ErrResponseTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, mediaType := range mediaTypes {
				request := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
				if test.upgrade {
					request.Header.Set("Upgrade", "SPDY/3.1")
				}
				var refused error
				body := strings.NewReader(strings.Repeat("x", length))
				answer := responder(test.status, http.Header{"Content-Type": {mediaType}}, body)
				guarded := &guard{next: answer, limits: test.limits, refused: func(err error) { refused = err }}
				response, err := guarded.RoundTrip(request)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				if !errors.Is(err, test.want) || !errors.Is(refused, test.want) {
					t.Errorf("%s: error %v, counted %v, want %v", mediaType, err, refused, test.want)
				}
			}
		})
	}
}

func TestElementsAreBounded(t *testing.T) {
	items := func(item string, count int) string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat(item+",", count), ",") + "]}"
	}
	offer := `{"metadata":{"name":"milan","namespace":"liqo-tenant-rome"},"spec":{"text":"a,b,[{\"c\",{"}}`
	for _, test := range []struct {
		name, path, body string
		watch            int64
		want             error
	}{
		{"a million empty items", "/offers", items("{}", 1_000_000), 0, ErrTooManyElements},
		{"a million empty items of an item", "/offers", items(items("{}", 1_000_000), 1), 0, ErrTooManyElements},
		{"a million numbers", "/offers", items("0", 1_000_000), 0, ErrTooManyElements},
		{"lists in lists", "/offers", strings.Repeat("[", 1_000), 0, ErrTooManyElements},
		{"many offers", "/offers", items(offer, 5_000), 0, nil},
		{"more offers than the limit", "/offers", items(offer, 5_001), 0, ErrTooManyElements},
		{"commas and brackets in a text", "/offers", `{"a":"` + strings.Repeat(`[,{,\"`, 100_000) + `"}`, 0, nil},
		{"an event with a million items", "/offers?watch=1", items("{}", 1_000_000), 0, ErrTooManyElements},
		{"a long event", "/offers?watch=1", `{"a":"` + strings.Repeat("x", 17<<20), 0, ErrResponseTooLarge},
		{"many events", "/offers?watch=1", strings.Repeat(items("{}", 9_000), 100), 0, nil},
		{"more events than the limit", "/offers?watch=1", strings.Repeat("{}\n", 5_001), 0, ErrTooManyEvents},
		{"many events of a bounded watch", "/offers?watch=1", strings.Repeat(items("{}", 9_000), 100), 8 << 20, ErrTooManyElements},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Some callers decode text as JSON, too.
			for _, mediaType := range []string{
				"application/json", "application/json;stream=watch", "application/x+json", "", "invalid;;", "text/plain",
			} {
				body := iotest.HalfReader(strings.NewReader(test.body))
				answer := responder(http.StatusOK, http.Header{"Content-Type": {mediaType}}, body)
				guard := &guard{
					next:    answer,
					limits:  Limits{Response: 16 << 20, Watch: test.watch, Objects: 5_000, Elements: 10_000},
					refused: func(error) {},
				}
				response, err := guard.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
				if err != nil {
					t.Fatal(err)
				}
				if _, err = io.Copy(io.Discard, response.Body); !errors.Is(err, test.want) {
					t.Errorf("%q: error %v, want %v", mediaType, err, test.want)
				}
				_ = response.Body.Close()
			}
		})
	}
}

// client-go decodes a response as its media type requires, whatever was requested. In encodings other than JSON, the
// elements of a response are not counted, so these are refused.
func TestOnlyJSONIsDecoded(t *testing.T) {
	const list, watch, log = "/offers", "/offers?watch=1", "/api/v1/namespaces/a/pods/b/log"
	for _, test := range []struct {
		mediaType, path string
		status          int
		want            error
	}{
		{"application/json", list, 200, nil},
		{"application/json;stream=watch", watch, 200, nil},
		{"application/problem+json", list, 200, nil},
		{"", list, 200, nil},
		{"application/yaml", list, 200, ErrEncoding},
		{"Application/YAML; charset=utf-8", list, 200, ErrEncoding},
		{"application/yaml;;", list, 200, ErrEncoding},
		{"application/yaml", list, 404, ErrEncoding},
		{"application/yaml", log, 404, ErrEncoding},
		{"application/yaml", log, 200, nil},
		{"application/openapi+yaml", list, 200, ErrEncoding},
		{"application/vnd.kubernetes.protobuf", list, 200, ErrEncoding},
		{"application/vnd.kubernetes.protobuf", list, 500, ErrEncoding},
		{"application/vnd.kubernetes.protobuf;stream=watch", watch, 200, ErrEncoding},
		{"application/vnd.kubernetes.protobuf; ;", watch, 200, ErrEncoding},
		{"application/x+protobuf", list, 200, ErrEncoding},
		{"application/cbor", list, 200, ErrEncoding},
		{"application/cbor-seq", watch, 200, ErrEncoding},
		{"application/x+cbor", list, 200, ErrEncoding},
		{"text/plain", list, 502, nil},
		{"text/html; charset=utf-8", list, 503, nil},
		{"image/png", list, 200, nil},
	} {
		t.Run(test.mediaType+" "+test.path, func(t *testing.T) {
			var refused error
			answer := responder(test.status, http.Header{"Content-Type": {test.mediaType}}, strings.NewReader("{}"))
			guard := &guard{next: answer, limits: SharedLimits, refused: func(err error) { refused = err }}
			response, err := guard.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
			if !errors.Is(err, test.want) || !errors.Is(refused, test.want) {
				t.Errorf("error %v, counted %v, want %v", err, refused, test.want)
			}
			if err == nil {
				_ = response.Body.Close()
			}
		})
	}
}

// If a codec of the clients decodes another encoding, it must be refused, too.
func TestEveryEncodingOfTheCodecsIsRefused(t *testing.T) {
	for name, codecs := range map[string]serializer.CodecFactory{
		"core": kubescheme.Codecs, "federation": federationscheme.Codecs, "metadata": metainternalversionscheme.Codecs,
		"metrics": metricsscheme.Codecs,
	} {
		for _, codec := range codecs.SupportedMediaTypes() {
			if !isJSON(codec.MediaType) && !refusedEncoding(codec.MediaType) {
				t.Errorf("the codec of %s decodes %s, which is not refused", name, codec.MediaType)
			}
		}
	}
}

// A peer that responds in another encoding, or without a media type, causes an error in each client, which must not
// decode the response.
func TestNoClientDecodesAnotherEncoding(t *testing.T) {
	// A list with two empty items.
	list := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "SecretList"}, Raw: []byte{18, 0, 18, 0}}
	encoded, err := list.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	protobuf := "k8s\x00" + string(encoded)
	for _, test := range []struct {
		name, mediaType, body string
		want                  error
	}{
		{"YAML", runtime.ContentTypeYAML, "{apiVersion: v1, kind: SecretList, items: [{}]}", ErrEncoding},
		{"protobuf", runtime.ContentTypeProtobuf, protobuf, ErrEncoding},
		{"protobuf without a media type", "", protobuf, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, config := peer(t, func(w http.ResponseWriter, r *http.Request) {
				if accepted := r.Header.Get("Accept"); accepted == "" || strings.Contains(accepted, "protobuf") {
					t.Errorf("%s: accepts %q", r.URL, accepted)
				}
				w.Header()["Content-Type"] = nil
				if test.mediaType != "" {
					w.Header().Set("Content-Type", test.mediaType)
				}
				_, _ = io.WriteString(w, test.body)
			})
			clients, err := NewClients(config)
			if err != nil {
				t.Fatal(err)
			}
			secrets := corev1.SchemeGroupVersion.WithResource("secrets")
			ctx, all := t.Context(), metav1.ListOptions{}
			for client, list := range map[string]func() (any, error){
				"core":       func() (any, error) { return clients.Kube.CoreV1().Secrets("a").List(ctx, all) },
				"federation": func() (any, error) { return clients.Federation.FederationV1alpha1().ShadowPods("a").List(ctx, all) },
				"dynamic":    func() (any, error) { return clients.Dynamic.Resource(secrets).Namespace("a").List(ctx, all) },
				"metadata":   func() (any, error) { return clients.Metadata.Resource(secrets).Namespace("a").List(ctx, all) },
				"metrics":    func() (any, error) { return clients.Metrics.PodMetricses("a").List(ctx, all) },
			} {
				if got, err := list(); err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("%s: %v, error %v, want %v", client, got, err, test.want)
				}
			}
		})
	}
}

// The status of the response and the text of a proxy must be in the error.
func TestErrorsOfProxiesAreReported(t *testing.T) {
	for _, mediaType := range []string{"text/plain", ""} {
		_, config := peer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if mediaType != "" {
				w.Header().Set("Content-Type", mediaType)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "no backend")
		})
		clients, err := NewClients(config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = clients.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("a").
			List(t.Context(), metav1.ListOptions{})
		cause, ok := apierrors.StatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
		if !apierrors.IsServiceUnavailable(err) || !ok || cause.Message != "no backend" {
			t.Errorf("%q: error %v with the cause %q, want those of the proxy", mediaType, err, cause.Message)
		}
	}
}

func TestSlowResponsesTimeOut(t *testing.T) {
	for _, test := range []struct {
		name, path string
		want       error
	}{
		{"a byte a second", "/offers", errResponseTimeout},
		{"a byte a second of a watch", "/offers?watch=1", nil},
		{"a byte a second of a log", "/api/v1/namespaces/a/pods/b/log", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next := roundTripper(func(request *http.Request) (*http.Response, error) {
					reader, writer := io.Pipe()
					context.AfterFunc(request.Context(), func() { _ = writer.CloseWithError(request.Context().Err()) })
					go func() {
						ticker := time.NewTicker(time.Second)
						defer ticker.Stop()
						for range 60 {
							select {
							case <-request.Context().Done():
								return
							case <-ticker.C:
							}
							if _, err := writer.Write([]byte("x")); err != nil {
								return
							}
						}
						_ = writer.Close()
					}()
					return response(http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, reader), nil
				})
				guard := &guard{next: next, limits: SharedLimits, refused: func(error) {}}
				answer, err := guard.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil))
				if err != nil {
					t.Fatal(err)
				}
				if _, err = io.Copy(io.Discard, answer.Body); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				_ = answer.Body.Close()
			})
		})
	}
}

// client-go waits for the time of Retry-After within the call.
func TestRetryAfterDelaysNoCall(t *testing.T) {
	_, config := peer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "31536000")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	clients, err := NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = clients.Federation.FederationV1alpha1().ResourceOffers("a").List(ctx, metav1.ListOptions{})
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("error %v, want that of the peer", err)
	}
}

// A peer that does not respond occupies a limited number of callers. The others fail, and can serve other peers.
func TestCallsThatWaitForAResponseAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(request *http.Request) (*http.Response, error) {
			<-request.Context().Done()
			return nil, request.Context().Err()
		})
		guard := newGuard(silent, SharedLimits, NewCalls(SharedLimits.Calls), func(error) {})
		errs := make(chan error)
		start := time.Now()
		for range SharedLimits.Calls + 10 {
			go func() {
				_, err := guard.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/offers", nil))
				errs <- err
			}()
		}
		for range 10 {
			if err := <-errs; !errors.Is(err, ErrBusy) || time.Since(start) != callTimeout {
				t.Errorf("after %v: error %v, want %v after %v", time.Since(start), err, ErrBusy, callTimeout)
			}
		}
		for range SharedLimits.Calls {
			if err := <-errs; !errors.Is(err, errResponseTimeout) || time.Since(start) != responseTimeout {
				t.Errorf("after %v: error %v, want %v after %v", time.Since(start), err, errResponseTimeout, responseTimeout)
			}
		}
	})
}

// After a call timed out, a peer occupies one caller, and others fail at once, until the peer answers a call.
func TestAfterATimeoutOneCallIsPermittedUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answering, slow atomic.Bool
		calls := NewCalls(SharedLimits.Calls)
		// The connections of two identities to the same peer share the limit.
		var guards [2]*guard
		for i := range guards {
			guards[i] = newGuard(roundTripper(func(request *http.Request) (*http.Response, error) {
				switch {
				case answering.Load():
					return response(http.StatusOK, http.Header{}, io.NopCloser(strings.NewReader("{}"))), nil
				case slow.Load():
					return response(http.StatusOK, http.Header{}, &endlessBody{request.Context()}), nil
				}
				<-request.Context().Done()
				return nil, request.Context().Err()
			}), SharedLimits, calls, func(error) {})
		}
		call := func(i int) error {
			response, err := guards[i%2].RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/offers", nil))
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			return err
		}
		// concurrently returns the number of calls that the peer delayed by the timeout for responses.
		concurrently := func() (delayed int) {
			times := make(chan time.Duration)
			for i := range 2 * SharedLimits.Calls {
				go func() {
					start := time.Now()
					_ = call(i)
					times <- time.Since(start)
				}()
			}
			for range 2 * SharedLimits.Calls {
				switch took := <-times; {
				case took == responseTimeout:
					delayed++
				case took > callTimeout:
					t.Errorf("a call ended after %v", took)
				}
			}
			return delayed
		}
		check := func(state string, want int) {
			t.Helper()
			if delayed := concurrently(); delayed != want {
				t.Errorf("%s: %d calls waited for the peer, want %d", state, delayed, want)
			}
		}
		check("a peer that is silent for the first time", SharedLimits.Calls)
		check("a peer that stays silent", 1)
		slow.Store(true)
		check("a peer that sends one byte a second", 1)
		check("a peer that goes on with it", 1)
		answering.Store(true)
		if err := call(0); err != nil {
			t.Fatal(err)
		}
		answering.Store(false)
		check("a peer that has answered a call", SharedLimits.Calls)
	})
}

// Peers that delay all their responses, each within the timeout, leave workers to another peer.
func TestSlowPeersLeaveWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slowPeers = 2 * maxSlowCalls / 8
		peer := func(delay time.Duration) *guard {
			return newGuard(roundTripper(func(*http.Request) (*http.Response, error) {
				time.Sleep(delay)
				return response(http.StatusOK, http.Header{}, io.NopCloser(strings.NewReader("{}"))), nil
			}), SharedLimits, NewCalls(8), func(error) {})
		}
		call := func(peer *guard) error {
			response, err := peer.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/offers", nil))
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		other, slow := peer(0), make([]*guard, slowPeers)
		for i := range slow {
			slow[i] = peer(responseTimeout - time.Second)
		}
		for round, want := range []int{8 * slowPeers, maxSlowCalls, maxSlowCalls} {
			var answered atomic.Int32
			var group sync.WaitGroup
			for _, peer := range slow {
				for range 8 {
					group.Go(func() {
						switch err := call(peer); {
						case err == nil:
							answered.Add(1)
						case !errors.Is(err, ErrBusy):
							t.Errorf("round %d: error %v, want %v", round, err, ErrBusy)
						}
					})
				}
			}
			synctest.Wait()
			if err := call(other); err != nil {
				t.Errorf("round %d: the other peer: %v", round, err)
			}
			group.Wait()
			if int(answered.Load()) != want {
				t.Errorf("round %d: %d calls waited for slow peers, want %d", round, answered.Load(), want)
			}
		}
		time.Sleep(slowFor)
		if err := call(slow[0]); err != nil || len(slowCalls) != 0 {
			t.Errorf("after %v: error %v, %d calls to slow peers", slowFor, err, len(slowCalls))
		}
	})
}

// endlessBody is a body with one byte a second, until the context ends.
type endlessBody struct{ ctx context.Context }

func (b *endlessBody) Read(p []byte) (int, error) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-timer.C:
		return copy(p, "x"), nil
	}
}

func (b *endlessBody) Close() error { return nil }

// client-go repeats a read when the connection is reset, each time with a new deadline.
func TestResetConnectionsEndACall(t *testing.T) {
	var calls atomic.Int64
	_, config := peer(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		// Closing a connection with this option resets it.
		if tcp, ok := connection.(*tls.Conn).NetConn().(*net.TCPConn); !ok || tcp.SetLinger(0) != nil {
			t.Errorf("%T cannot be reset", connection)
		}
		_ = connection.(*tls.Conn).NetConn().Close()
	})
	clients, err := NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.Federation.FederationV1alpha1().ResourceOffers("a").Get(t.Context(), "milan", metav1.GetOptions{})
	if !errors.Is(err, ErrReset) || !Unreachable(err) || Describe(err) != ErrReset.Error() {
		t.Errorf("error %v (%s), want %v", err, Describe(err), ErrReset)
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls, want 1", calls.Load())
	}
}

func TestHeadersAreBounded(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoAtLeast(2, 0) != http2 {
				t.Errorf("the protocol is %s", r.Proto)
			}
			for i := range 2 * maxHeader / 1024 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1024))
			}
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(handler))
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		identity := &Identity{Server: server.URL, CA: ca, Token: "token"}
		config, err := Config(identity, Options{Dial: (&net.Dialer{}).DialContext})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, config, "/api"); err == nil {
			t.Errorf("HTTP/2 %v: a header of %d bytes was read", http2, 2*maxHeader)
		}
	}
}

func TestFinishedCallsAndStreamsAreNotCounted(t *testing.T) {
	guard := newGuard(roundTripper(func(*http.Request) (*http.Response, error) {
		return response(http.StatusOK, http.Header{}, io.NopCloser(strings.NewReader("{}"))), nil
	}), Limits{Response: 10}, NewCalls(1), func(error) {})
	for _, path := range []string{"/offers", "/offers", "/offers?watch=1", "/offers?watch=1", "/offers"} {
		response, err := guard.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !strings.Contains(path, "watch") {
			_ = response.Body.Close()
			_ = response.Body.Close()
		}
	}
}

func FuzzMeterCountsElementsOfArrays(f *testing.F) {
	f.Add(`{"a":[1,{"b":[[],"x,\"]"]}],"c":{}}`)
	f.Add(`{"repeated":[0,{}],"repeated":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		// The meter refuses deeper values.
		if !json.Valid([]byte(text)) || strings.Count(text, "[")+strings.Count(text, "{") > maxDepth {
			t.Skip()
		}
		want := commas(t, json.NewDecoder(strings.NewReader(text)))
		measure := &meter{free: want}
		if !measure.admits([]byte(text)) {
			t.Fatalf("a value with %d commas in its arrays was refused", want)
		}
		if measure.elements != want {
			t.Errorf("counted %d elements after the first of each array, want %d", measure.elements, want)
		}
	})
}

// commas returns the number of commas in all arrays of the next value. It reads tokens, because a decoded object has
// only the last of several members with the same name.
func commas(t *testing.T, values *json.Decoder) int64 {
	t.Helper()
	values.UseNumber()
	next := func() json.Token {
		token, err := values.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	var count int64
	switch next() {
	case json.Delim('['):
		for first := true; values.More(); first = false {
			if !first {
				count++
			}
			count += commas(t, values)
		}
		next()
	case json.Delim('{'):
		for values.More() {
			next()
			count += commas(t, values)
		}
		next()
	}
	return count
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// responder returns a transport that answers each request with the same response.
func responder(status int, header http.Header, body io.Reader) http.RoundTripper {
	return roundTripper(func(*http.Request) (*http.Response, error) {
		return response(status, header, io.NopCloser(body)), nil
	})
}

func response(status int, header http.Header, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: body}
}

func TestTLSVerifiedByDefault(t *testing.T) {
	server, _ := peer(t, func(http.ResponseWriter, *http.Request) {})
	config, err := Config(&Identity{Server: server.URL, Token: "token"}, Options{Limits: SharedLimits})
	if err != nil {
		t.Fatal(err)
	}
	config.Dial = nil
	_, err = get(t, config, "/")
	if err == nil || !Unreachable(err) || !strings.Contains(Describe(err), "certificate is not trusted") {
		t.Errorf("a certificate of an unknown CA: %v (%s)", err, Describe(err))
	}
}

func TestOnlyHTTPSServersAreDialled(t *testing.T) {
	for _, server := range []string{
		"", "http://10.0.0.1:6443", "https://", "https://user:secret@10.0.0.1", "https://10.0.0.1?x=y",
		"https://10.0.0.1#x", "unix:///run/x",
	} {
		if _, err := Config(&Identity{Server: server, Token: "token"}, Options{}); err == nil {
			t.Errorf("%q was accepted", server)
		}
	}
}

func TestDescribeIsTheSameEachTime(t *testing.T) {
	server, config := peer(t, func(http.ResponseWriter, *http.Request) {})
	server.Close()
	_, first := get(t, config, "/")
	_, second := get(t, config, "/")
	if Describe(first) != Describe(second) || !strings.Contains(Describe(first), "refused") {
		t.Errorf("%q, then %q", Describe(first), Describe(second))
	}
}

func TestTextIsBoundedAndPrintable(t *testing.T) {
	if got := Text("a\x1b[31mb\nc\x00d"); got != "a[31mb cd" {
		t.Errorf("Text = %q", got)
	}
	if got := Text(strings.Repeat("ä", 10_000)); len(got) > MaxText || len(got) < MaxText-4 {
		t.Errorf("%d characters are left", len([]rune(got)))
	}
}

// client-go logs the warnings of each response by default.
func TestWarningsOfPeersAreNotLogged(t *testing.T) {
	config, err := Config(&Identity{Server: "https://milan.example:6443", Token: "token"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if config.WarningHandlerWithContext != (rest.NoWarnings{}) {
		t.Errorf("warnings are handled by %T", config.WarningHandlerWithContext)
	}
}
