// The part of Swagger UI that is used; the package has no types of its own.

declare module "swagger-ui-dist/swagger-ui-bundle.js" {
  interface Options {
    dom_id: string;
    url: string;
    docExpansion: "none" | "list";
    deepLinking: boolean;
    defaultModelsExpandDepth: number;
    syntaxHighlight: { activated: boolean };
    validatorUrl: null;
    requestInterceptor: (request: { headers: Record<string, string> }) => unknown;
  }
  export default function SwaggerUI(options: Options): unknown;
}
