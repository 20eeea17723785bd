// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placementreview serves the admission webhook that places pods with claims in offloaded namespaces. The
// webhook is a resource of the federation API that is not stored: kube-apiserver calls it through the aggregation layer
// and authenticates as it does for all resources of the API group.
package placementreview

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/placement"
)

// timeout is the maximum duration of a review. It is less than timeoutSeconds of the webhook, so that users get the
// error of the failed read and not of the webhook call.
const timeout = 4 * time.Second

var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// REST responds to AdmissionReviews of pods that are created. It stores nothing.
type REST struct {
	reader Reader
}

var (
	_ rest.Creater                  = &REST{}
	_ rest.Scoper                   = &REST{}
	_ rest.SingularNameProvider     = &REST{}
	_ rest.GroupVersionKindProvider = &REST{}
)

// New returns the resource placementreviews. reader reads the objects that determine the placement of a pod.
func New(reader Reader) *REST { return &REST{reader: reader} }

// New returns an empty AdmissionReview.
func (r *REST) New() runtime.Object { return &admissionv1.AdmissionReview{} }

// Destroy does nothing, because there is no store.
func (r *REST) Destroy() {}

// NamespaceScoped returns false, because a webhook has one path for all namespaces.
func (r *REST) NamespaceScoped() bool { return false }

// GetSingularName returns the singular name of the resource.
func (r *REST) GetSingularName() string { return "placementreview" }

// GroupVersionKind returns AdmissionReview of admission.k8s.io, the kind that kube-apiserver sends to webhooks. Its
// group differs from the group of the resource.
func (r *REST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
}

// Create returns the AdmissionReview with a response and without its request. It fails if the review is malformed or if
// an object cannot be read; kube-apiserver then refuses the pod.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	review, ok := obj.(*admissionv1.AdmissionReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an AdmissionReview, got a %T", obj))
	}
	if createValidation != nil {
		if err := createValidation(ctx, review.DeepCopy()); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	response, outcome, err := r.respond(ctx, review.Request)
	observe(outcome, time.Since(started))
	if err != nil {
		return nil, err
	}
	return &admissionv1.AdmissionReview{Response: response}, nil
}

func (r *REST) respond(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, outcome, error) {
	pod, err := podOf(request)
	if err != nil {
		return nil, failed, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	input, err := r.reader.read(ctx, request, pod)
	if err != nil {
		return nil, failed, err
	}
	decision := placement.Decide(input)
	response := &admissionv1.AdmissionResponse{
		UID: request.UID, Allowed: decision.Denied == "", Warnings: decision.Warnings,
	}
	if !response.Allowed {
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: decision.Denied,
		}
		return response, denied, nil
	}
	patch := decision.Patch(pod)
	if len(patch) == 0 {
		return response, unchanged, nil
	}
	if response.Patch, err = json.Marshal(patch); err != nil {
		return nil, failed, apierrors.NewInternalError(fmt.Errorf("encoding the patch of the pod: %w", err))
	}
	response.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
	if decision.Gated {
		return response, gated, nil
	}
	return response, placed, nil
}

// podOf returns the pod that a request creates. It fails with BadRequest if the request is malformed or does not create
// a pod.
func podOf(request *admissionv1.AdmissionRequest) (*corev1.Pod, error) {
	switch {
	case request == nil:
		return nil, apierrors.NewBadRequest("the AdmissionReview has no request")
	case request.Resource != pods || request.SubResource != "" || request.Operation != admissionv1.Create:
		return nil, apierrors.NewBadRequest("only the creation of pods is reviewed: " +
			"restore the MutatingWebhookConfiguration federation-placement-claims of the chart")
	case request.Namespace == "":
		return nil, apierrors.NewBadRequest("the request has no namespace")
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		// The decoder's error is omitted, because it may contain values of the pod.
		return nil, apierrors.NewBadRequest("the request has no valid pod")
	}
	return pod, nil
}
