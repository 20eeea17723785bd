// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

func TestVerbDoesNotOverwriteAppliedFields(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	client := admin(t).FederationV1alpha1()
	env.Kubectl(t, offloadingManifest, "apply", "--server-side", "--field-manager=gitops", "-n", namespace, "-f", "-")
	defer deleteNow(t, offloadingPath(namespace))
	patch := func(strategy, manager string) error {
		_, err := client.NamespaceOffloadings(namespace).PatchOffload(t.Context(), "offloading", types.MergePatchType,
			encode(fields{"spec": fields{"podOffloadingStrategy": strategy}}), metav1.PatchOptions{FieldManager: manager})
		return err
	}
	err := patch("Local", "other")
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, `spec.podOffloadingStrategy is applied by "gitops"`)
	if cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict); !ok ||
		cause.Field != "spec.podOffloadingStrategy" {
		t.Errorf("the cause is %+v", cause)
	}
	if err := patch("Remote", "other"); err != nil {
		t.Errorf("the same value is a conflict: %v", err)
	}
	if err := patch("Local", "gitops"); err != nil {
		t.Errorf("the manager of the field cannot change it: %v", err)
	}
	going, err := client.NamespaceOffloadings(namespace).DeleteOffload(t.Context(), "offloading", metav1.DeleteOptions{})
	if err != nil || going.Namespace != namespace || going.DeletionTimestamp == nil {
		t.Errorf("the offload is %+v, %v", going, err)
	}

	const manifest = `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"ForeignCluster","metadata":{"name":"prato"},` +
		`"spec":{"outgoing":"Disabled","server":"https://prato.example.org","disconnectTimeoutSeconds":60}}`
	env.Kubectl(t, manifest, "apply", "--server-side", "--field-manager=gitops", "-f", "-")
	defer func() {
		if err := client.ForeignClusters().Delete(t.Context(), "prato", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		finish(t, env, "prato")
	}()
	invitation := genoa()
	invitation.Spec.Server = "https://prato.example.org"
	_, err = client.ForeignClusters().CreatePeer(t.Context(), "prato", invitation, metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, `spec.outgoing is applied by "gitops"`)
	if output, err := env.TryKubectl(t, "", "delete", "--raw", peerPath("prato")+"?gracePeriodSeconds=7"); err == nil ||
		!strings.Contains(output, "spec.disconnectTimeoutSeconds") {
		t.Errorf("an applied timeout was changed: %s, %v", output, err)
	}
	if _, err := env.Kube.CoreV1().Secrets(framework.InvitationNamespace).Get(t.Context(), "invitation-prato",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused POST leaves a Secret: %v", err)
	}
}

func TestOneOfManyEqualInvitationsIsAccepted(t *testing.T) {
	env := framework.Get(t)
	config := rest.CopyConfig(env.Admin)
	config.QPS = -1
	clusters := versioned.NewForConfigOrDie(config).FederationV1alpha1().ForeignClusters()
	const clients = 16
	answers := make([]*v1alpha1.Peering, clients)
	failures := make([]error, clients)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			peering := genoa()
			if i == clients-1 {
				peering.Spec.Server = "https://other.example.org"
			}
			answers[i], failures[i] = clusters.CreatePeer(t.Context(), "como", peering, metav1.CreateOptions{})
		})
	}
	running.Wait()
	defer func() {
		if err := clusters.Delete(t.Context(), "como", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		finish(t, env, "como")
	}()
	stored, err := clusters.Get(t.Context(), "como", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		if err := failures[i]; err != nil {
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "spec.server") {
				t.Errorf("client %d is answered with %v", i, err)
			}
			continue
		}
		if answers[i].ResourceVersion != stored.ResourceVersion || answers[i].UID != stored.UID ||
			answers[i].Spec.Server != stored.Spec.Server {
			t.Errorf("client %d sees %s of %s at %s, not %s of %s at %s", i, answers[i].Spec.Server, answers[i].UID,
				answers[i].ResourceVersion, stored.Spec.Server, stored.UID, stored.ResourceVersion)
		}
	}
	if stored.Generation != 1 {
		t.Errorf("the generation is %d", stored.Generation)
	}
}

func TestOneOfManyEqualOffloadsIsAccepted(t *testing.T) {
	env := framework.Get(t)
	config := rest.CopyConfig(env.Admin)
	config.QPS = -1
	namespace := env.MakeNamespace(t)
	offloadings := versioned.NewForConfigOrDie(config).FederationV1alpha1().NamespaceOffloadings(namespace)
	const clients = 16
	versions := make(chan string, clients)
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			answer, err := offloadings.CreateOffload(t.Context(), "offloading", &v1alpha1.Offload{}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			versions <- answer.ResourceVersion
		})
	}
	running.Wait()
	defer deleteNow(t, offloadingPath(namespace))
	close(versions)
	stored, err := offloadings.Get(t.Context(), "offloading", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for version := range versions {
		if version != stored.ResourceVersion {
			t.Errorf("a client sees resourceVersion %s, not %s", version, stored.ResourceVersion)
		}
	}
}

func TestVerbOnATerminatingParentIsRetried(t *testing.T) {
	env := framework.Get(t)
	client := admin(t).FederationV1alpha1()
	clusters := client.ForeignClusters()
	if _, err := clusters.CreatePeer(t.Context(), "lodi", genoa(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	going, err := clusters.DeletePeer(t.Context(), "lodi", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](30)})
	if err != nil {
		t.Fatal(err)
	}
	if going.Name != "lodi" || going.DeletionTimestamp == nil || *going.Spec.DisconnectTimeoutSeconds != 30 {
		t.Errorf("the peering is %+v", going)
	}
	err = client.RESTClient().Post().Resource("foreignclusters").Name("lodi").SubResource("peer").Body(genoa()).MaxRetries(
		0).Do(t.Context()).Error()
	subresourcetest.ExpectStatus(t, err, http.StatusTooManyRequests, "being deleted")
	if seconds, delay := apierrors.SuggestsClientDelay(err); !delay || seconds == 0 {
		t.Errorf("a client waits %d s: %v", seconds, err)
	}

	// client-go retries the request, because the response has Retry-After.
	refused := make(chan struct{})
	waiting := rest.CopyConfig(env.Admin)
	waiting.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return noticing{next, sync.OnceFunc(func() { close(refused) })}
	})
	again := make(chan error)
	go func() {
		_, err := versioned.NewForConfigOrDie(waiting).FederationV1alpha1().ForeignClusters().CreatePeer(t.Context(), "lodi",
			genoa(), metav1.CreateOptions{})
		again <- err
	}()
	select {
	case err := <-again:
		t.Fatalf("client-go does not wait: %v", err)
	case <-refused:
		finish(t, env, "lodi")
	}
	if err := <-again; err != nil {
		t.Errorf("after its deletion: %v", err)
	}
	if err := clusters.Delete(t.Context(), "lodi", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	finish(t, env, "lodi")
}

// noticing calls the function noticed when a response has status 429.
type noticing struct {
	next    http.RoundTripper
	noticed func()
}

func (n noticing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		n.noticed()
	}
	return response, err
}
