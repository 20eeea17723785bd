// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/controllers/clientca"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	nodeName  = "liqo-milan"
	goodToken = "a-good-token"
)

// node is a virtual node with the pod web in namespace demo. Its kubelet API is served on loopback over TLS.
type node struct {
	url       string
	authority *authority
	cluster   kubernetes.Interface
	pods      *fakePods

	mu      sync.Mutex
	reviews []authorizationv1.SubjectAccessReviewSpec
	// allow returns whether a SubjectAccessReview is allowed.
	allow func(authorizationv1.SubjectAccessReviewSpec) bool
	// requests has the requests that the provider received.
	requests []*http.Request
}

type fakePods struct {
	pods             []*corev1.Pod
	remoteNamespaces map[string]string
	remotes          map[string]*corev1.PodStatus
}

func (f *fakePods) List() []*corev1.Pod { return f.pods }

func (f *fakePods) Find(namespace, name string) (*corev1.Pod, string) {
	for _, pod := range f.pods {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, f.remoteNamespaces[namespace]
		}
	}
	return nil, ""
}

func (f *fakePods) RemoteStatus(namespace, name string) *corev1.PodStatus {
	return f.remotes[namespace+"/"+name]
}

// startNode starts a node. provider handles the requests to the provider; identity changes the configuration of the
// client for it.
func startNode(t *testing.T, provider http.HandlerFunc, identity ...func(*rest.Config)) *node {
	t.Helper()
	n := &node{
		authority: newAuthority(t),
		allow:     func(authorizationv1.SubjectAccessReviewSpec) bool { return true },
		pods: &fakePods{
			pods:             []*corev1.Pod{pod("web")},
			remoteNamespaces: map[string]string{"demo": "demo-rome"},
		},
	}
	n.cluster = &cluster{
		Clientset: clusterOf(n.authority),
		reviews:   n.startReviews(t),
	}

	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.requests = append(n.requests, r)
		n.mu.Unlock()
		provider(w, r)
	}))
	t.Cleanup(backend.Close)
	config := &rest.Config{Host: backend.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw}),
	}}
	for _, change := range identity {
		change(config)
	}
	remote, err := NewProvider(config)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	auth, err := NewAuth(ctx, n.cluster, nodeName)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := Certificate("", "", nodeName, net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.url = "https://" + listener.Addr().String()
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, listener, certificate, New(Config{
			NodeName: nodeName, Pods: n.pods, Provider: remote, Auth: auth,
			Volumes: NewVolumes(n.pods, nil, clock.RealClock{}, klog.Background()),
			Metrics: http.NotFoundHandler(), Usage: http.NotFoundHandler(), Ready: func() error { return nil },
		}))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	n.untilReady(t)
	return n
}

// clusterOf returns a cluster whose CA of clients is the authority.
func clusterOf(authority *authority) *fake.Clientset {
	return fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: clientca.ConfigMap},
		Data:       map[string]string{clientca.Key: string(authority.bundle)},
	})
}

// cluster is a client with the ConfigMaps of a fake one, whose reviews go to a server.
type cluster struct {
	*fake.Clientset
	reviews kubernetes.Interface
}

func (c *cluster) AuthenticationV1() authenticationclient.AuthenticationV1Interface {
	return c.reviews.AuthenticationV1()
}

func (c *cluster) AuthorizationV1() authorizationclient.AuthorizationV1Interface {
	return c.reviews.AuthorizationV1()
}

// startReviews starts a server for TokenReviews and SubjectAccessReviews, and returns a client of it.
func (n *node) startReviews(t *testing.T) kubernetes.Interface {
	t.Helper()
	respond := func(w http.ResponseWriter, review any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Authenticated = review.Spec.Token == goodToken
		review.Status.User.Username = "prometheus"
		respond(w, review)
	})
	mux.HandleFunc(
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews",
		func(w http.ResponseWriter, r *http.Request) {
			var review authorizationv1.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.reviews = append(n.reviews, review.Spec)
			review.Status.Allowed = n.allow(review.Spec)
			respond(w, review)
		},
	)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// untilReady waits until the node authenticates clients of its authority.
func (n *node) untilReady(t *testing.T) {
	t.Helper()
	config := n.config(n.authority)
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		return n.do(t, n.config(nil), http.MethodGet, "/readyz").StatusCode == http.StatusOK, nil
	})
	if err != nil || n.do(t, config, http.MethodGet, "/unknown").StatusCode == http.StatusUnauthorized {
		t.Fatal("the node did not load the cluster's client CA")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reviews = nil
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: corev1.PodSpec{
			NodeName:       nodeName,
			Containers:     []corev1.Container{{Name: "app"}},
			InitContainers: []corev1.Container{{Name: "init"}},
			EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}},
			},
		},
	}
}

// config returns a client configuration with a certificate from an authority, or without one if that is nil.
func (n *node) config(by *authority) *rest.Config {
	// The serving certificate is self-signed, so it cannot be verified.
	config := &rest.Config{Host: n.url, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if by != nil {
		config.CertData, config.KeyData = by.client("kube-apiserver-kubelet-client")
	}
	return config
}

// send sends a request of kube-apiserver.
func (n *node) send(t *testing.T, request *http.Request) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(n.config(n.authority))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func (n *node) do(t *testing.T, config *rest.Config, method, path string) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, n.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// seen returns the reviews and the requests that the provider received.
func (n *node) seen() ([]authorizationv1.SubjectAccessReviewSpec, []*http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.reviews), slices.Clone(n.requests)
}

// authority is a CA for client certificates.
type authority struct {
	t      *testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	bundle []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client-ca"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) client(name string) (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, &private.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}
