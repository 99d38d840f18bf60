// The page at /docs: the routes of openapi.json. "Authorize" asks for a key and keeps it until the page is closed.

// Swagger UI cleans its own markup before it inserts it. The policy still lets only scripts from this server run.
self.trustedTypes?.createPolicy("default", { createHTML: (markup) => markup });

addEventListener("DOMContentLoaded", () => {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
  });
});
