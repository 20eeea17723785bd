// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	applyv1alpha1 "liqo.io/federation/generated/applyconfiguration/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/test/integration/framework"
)

func newToken(name string) *v1alpha1.PeeringToken {
	return &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestWatchReturnsEveryChangeInOrder(t *testing.T) {
	tokens := admin(t).FederationV1alpha1().PeeringTokens()
	const name = "watched"
	watcher, err := tokens.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	created, err := tokens.Create(t.Context(), newToken(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Labels = map[string]string{"a": "b"}
	if _, err := tokens.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, ok := <-watcher.ResultChan()
		if !ok || event.Type != want {
			t.Fatalf("got event %s %v, want %s", event.Type, event.Object, want)
		}
	}
}

func TestServersThatShareAnEtcdServeTheSame(t *testing.T) {
	env := framework.Get(t)
	var clients []versioned.Interface
	for range 2 {
		server := env.StartServer(t, env.MakeDataDir(t), "--etcd-servers="+env.EtcdURL)
		client, err := versioned.NewForConfig(server.Client(env.Admin))
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
		if files, err := os.ReadDir(server.DataDir); err != nil || len(files) > 0 {
			t.Errorf("the data directory is used: %v, %v", files, err)
		}
	}
	first, second := clients[0].FederationV1alpha1().PeeringTokens(), clients[1].FederationV1alpha1().PeeringTokens()
	watcher, err := second.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=shared"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	created, err := first.Create(t.Context(), newToken("shared"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if event := <-watcher.ResultChan(); event.Type != watch.Added {
		t.Errorf("got event %s %v", event.Type, event.Object)
	}
	got, err := second.Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != created.UID {
		t.Errorf("got uid %s, want %s", got.UID, created.UID)
	}
}

func TestAnInformerHoldsWhatTheServerHolds(t *testing.T) {
	client := admin(t)
	tokens := client.FederationV1alpha1().PeeringTokens()
	if _, err := tokens.Create(t.Context(), newToken("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Federation().V1alpha1().PeeringTokens()
	synced := informer.Informer().HasSynced
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), synced) {
		t.Fatal("the cache does not sync")
	}
	if _, err := tokens.Create(t.Context(), newToken("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	retry(t, func() (any, error) { return informer.Lister().Get("after") })
	cached, err := informer.Lister().List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	if len(cached) < 2 {
		t.Errorf("holds %d tokens", len(cached))
	}
}

func TestApplyConfigurationsApply(t *testing.T) {
	tokens := admin(t).FederationV1alpha1().PeeringTokens()
	apply := applyv1alpha1.PeeringToken("applied").WithSpec(applyv1alpha1.PeeringTokenSpec().WithExpirationSeconds(1200))
	got, err := tokens.Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.ExpirationSeconds == nil || *got.Spec.ExpirationSeconds != 1200 {
		t.Errorf("got %v", got.Spec)
	}
}

func TestAListComesInPages(t *testing.T) {
	client := admin(t).FederationV1alpha1().NamespaceMaps(framework.Get(t).MakeNamespace(t))
	const all = 13
	for i := range all {
		if _, err := client.Create(t.Context(),
			&v1alpha1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%02d", i)}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	options, pages, got := metav1.ListOptions{Limit: 5}, 0, 0
	for {
		list, err := client.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		pages, got = pages+1, got+len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if pages != 3 || got != all {
		t.Errorf("got %d objects in %d pages", got, pages)
	}
}

func TestAnOldResourceVersionDoesNotOverwrite(t *testing.T) {
	tokens := admin(t).FederationV1alpha1().PeeringTokens()
	old, err := tokens.Create(t.Context(), newToken("contended"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := old.DeepCopy()
	first.Labels = map[string]string{"writer": "first"}
	if _, err := tokens.Update(t.Context(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	old.Labels = map[string]string{"writer": "second"}
	if _, err := tokens.Update(t.Context(), old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// Controllers and virtual kubelets require protobuf, and Kubernetes' garbage collector and
// namespace controller prefer it.
func TestClientThatAcceptsProtobufGetsIt(t *testing.T) {
	env := framework.Get(t)
	config := rest.CopyConfig(env.Admin)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tokens := client.FederationV1alpha1().PeeringTokens()
	created, err := tokens.Create(t.Context(), newToken("binary"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := admin(t).FederationV1alpha1().PeeringTokens().Get(t.Context(), "binary", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inJSON.Spec, created.Spec); diff != "" {
		t.Errorf("protobuf and JSON differ (-JSON +protobuf):\n%s", diff)
	}
	if _, err := tokens.Get(t.Context(), "binary", metav1.GetOptions{}); err != nil {
		t.Errorf("typed: %v", err)
	}
	if list, err := tokens.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) == 0 {
		t.Errorf("typed list: %v, %v", list, err)
	}
	metadataClient, err := metadata.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	resource := v1alpha1.SchemeGroupVersion.WithResource("peeringtokens")
	if _, err := metadataClient.Resource(resource).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("metadata: %v", err)
	}
	if err := metadataClient.Resource(resource).Delete(t.Context(), "binary", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting as the garbage collector does: %v", err)
	}
}

func TestClientThatAcceptsOnlyCBORIsRefused(t *testing.T) {
	env := framework.Get(t)
	path := groupPath + "/peeringtokens"
	if got, _ := send(t, env.Admin, http.MethodGet, path, map[string]string{"Accept": runtime.ContentTypeCBOR},
		""); got != http.StatusNotAcceptable {
		t.Errorf("GET: got %d, want 406", got)
	}
	if got, _ := send(t, env.Admin, http.MethodPost, path, map[string]string{"Content-Type": runtime.ContentTypeCBOR},
		"\xa0"); got != http.StatusUnsupportedMediaType {
		t.Errorf("POST: got %d, want 415", got)
	}
}

// send sends a request without normalizing its path, and returns the status code and the body. It
// does not follow redirects.
func send(t *testing.T, config *rest.Config, method, path string, headers map[string]string,
	body string) (int, string) {
	t.Helper()
	request := rawRequest(t, config, method, path, body)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	// An invalid path would close the whole connection with HTTP/2, so HTTP/1.1 is used.
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}
